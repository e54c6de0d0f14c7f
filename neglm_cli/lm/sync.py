"""Synchronization of parameters that have diverged across data-parallel ranks.

Every rank updates its own copy. On different types of CPUs the last bits may differ, and training amplifies them.
"""

import numpy as np
import xxhash

from neglm_cli.lm.device import Device
from neglm_cli.lm.tensors import materialize
from neglm_cli.scale.ranks import Ranks


def sync_parameters(device: Device, ranks: Ranks) -> bool:
    """Return True if parameters had diverged across ranks; then all ranks continue with those of rank 0."""
    if ranks.size == 1 or len(set(ranks.allgather(_digest(device)))) == 1:
        return False
    device.restore(ranks.broadcast(materialize(device.parameters() | device.state())))
    return True


def _digest(device: Device) -> str:
    digest = xxhash.xxh3_128()
    for tensor in device.parameters().values():
        for block in [tensor] if isinstance(tensor, np.ndarray) else tensor.blocks():
            digest.update(np.ascontiguousarray(block).data)
    return digest.hexdigest()
