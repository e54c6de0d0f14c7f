"""Processes that train one model each have a copy of it, which move alike. On processors of different kinds the last
bits may differ, and differences grow: so now and then they are compared."""

import numpy as np
import xxhash

from neglm_cli.lm.device import Device
from neglm_cli.lm.tensors import whole
from neglm_cli.scale.ranks import Ranks


def align(device: Device, ranks: Ranks) -> bool:
    """Whether the copies had drifted apart; then all go on with that of the first process."""
    if ranks.size == 1 or len(set(ranks.allgather(_digest(device)))) == 1:
        return False
    device.restore(ranks.broadcast(whole(device.parameters() | device.state())))
    return True


def _digest(device: Device) -> str:
    digest = xxhash.xxh3_128()
    for tensor in device.parameters().values():
        for block in [tensor] if isinstance(tensor, np.ndarray) else tensor.blocks():
            digest.update(np.ascontiguousarray(block).data)
    return digest.hexdigest()
