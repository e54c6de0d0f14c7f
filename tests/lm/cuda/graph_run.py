"""Trains on the software GPU in a process of its own, for `test_graphs`; prints the launches of each minibatch and a
digest of the results."""

import hashlib
import json
from dataclasses import replace

import numpy as np

from neglm_cli.lm.cuda.device import CudaDevice
from neglm_cli.lm.cuda.gpu import Gpu
from neglm_cli.lm.tensors import materialize
from tests.lm.making import END_OF_LINE, SMALL, counts, minibatch, parameters

WORDS = 12
TINY = replace(
    SMALL, batch=2, bptt=3, hidden=5, embedding=4, k=2, layers=2, threads=1, optimizer="adam", adam="exact", lr=0.01
)
SHORT = 6  # the number of a shorter minibatch
MINIBATCHES = 18


def main() -> None:
    gpu = Gpu()
    device = CudaDevice(parameters(TINY, WORDS), TINY, counts(WORDS), END_OF_LINE, gpu)
    device.prepare_training()
    launches, results = [], []
    for number in range(MINIBATCHES):
        before = gpu.launches
        batch = minibatch(TINY, WORDS, number, 2 if number == SHORT else None)
        results.append(device.train(batch._replace(rate=0.01 / (number + 1))))
        launches.append(gpu.launches - before)
    digest = hashlib.sha256(np.array([pending.result() for pending in results]).tobytes())
    for tensor in materialize(device.parameters() | device.state()).values():
        digest.update(tensor.tobytes())
    print(json.dumps({"launches": launches, "digest": digest.hexdigest()}))


if __name__ == "__main__":
    main()
