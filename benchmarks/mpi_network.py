"""Two hosts with a link between them whose rate is set, on one machine: is a training as fast as the model of
mpi_traffic.py says, and do as many bytes go over the wire?

    python benchmarks/mpi_network.py --data ../shared/data > benchmarks/mpi/network.md

The hosts are network namespaces of Linux, each with a process of one thread; a pair of virtual network devices joins
them, with a token bucket at each end. Needs root, `ip` and `tc` (Debian: iproute2), the mpirun of the mpich wheel, and
a machine with two cores that does nothing else.
"""

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from mpi_traffic import BATCH, MPIRUN, prepare, train, train_bytes
from side_by_side import option_parser, workplace

from neglm_cli.lm.parameters import Shape
from neglm_cli.text.vocabulary import Vocabulary

HOSTS = {"neglm-first": "10.77.0.1", "neglm-second": "10.77.0.2"}
FIRST, SECOND = HOSTS
DEVICE = "net0"
RATES = (10.0, 2.5, 1.0)  # Gbit/s
NOISE = ("token", "batch")
MINIBATCHES = 100
PAYLOAD = 1448 / 1514  # of a packet's bytes, as the token bucket counts them, those that TCP hands on

# Only TCP, and over the link: the processes are on one machine, and a library that sees that would use its memory.
OVER_THE_LINK = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": DEVICE}
# mpirun starts what belongs on the second host by this, as it would by ssh: options, the host's name, a command.
LAUNCH = f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
shift
exec ip netns exec {SECOND} sh -c "$*"
"""

INTRODUCTION = f"""# Two hosts and the link between them

Made by `benchmarks/mpi_network.py`: two hosts, which are network namespaces of one machine with two cores, a process of
one thread on each, and between them a link over which TCP goes at a rate that is set. `train-lm` on {MINIBATCHES}
minibatches of PTB (2×300, batch {BATCH}, k 100), which the two share; medians of {{rounds}} rounds. The bytes are those
that the network device of the first host counted, with the headers of packets; beside them those that `neglm` says it
has sent, and those of the model in [traffic.md](traffic.md). "Expected" is what follows from the model for this rate
and from words/s without a limit, if nothing is computed while something is sent; more than that is overlap.

| noise words | link | bytes a word on the wire | as neglm says | model | words/s | expected |
|---|---|---|---|---|---|---|"""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@contextlib.contextmanager
def two_hosts() -> Iterator[None]:
    try:
        for host in HOSTS:
            ip("netns", "add", host)
        ip("link", "add", DEVICE, "netns", FIRST, "type", "veth", "peer", "name", DEVICE, "netns", SECOND)
        for host, address in HOSTS.items():
            ip("-n", host, "addr", "add", f"{address}/24", "dev", DEVICE)
            for device in ("lo", DEVICE):
                ip("-n", host, "link", "set", device, "up")
        yield
    finally:
        for host in HOSTS:
            subprocess.run(["ip", "netns", "del", host], stderr=subprocess.DEVNULL)


def limit(rate: float | None) -> None:
    """Gbit/s in each direction; None: as fast as the machine copies."""
    for host in HOSTS:
        subprocess.run(["tc", "-n", host, "qdisc", "del", "dev", DEVICE, "root"], stderr=subprocess.DEVNULL)
        if rate is not None:
            bucket = ("tbf", "rate", f"{rate * 1000:.0f}mbit", "burst", "256kb", "latency", "100ms")
            subprocess.run(["tc", "-n", host, "qdisc", "add", "dev", DEVICE, "root", *bucket], check=True)


def sent() -> int:
    """Bytes that have left the first host."""
    counter = f"/sys/class/net/{DEVICE}/statistics/tx_bytes"
    return int(subprocess.run(["ip", "netns", "exec", FIRST, "cat", counter], check=True, capture_output=True).stdout)


def main() -> None:
    options = option_parser(__doc__, rounds=3).parse_args()
    if os.geteuid() or not (shutil.which("ip") and shutil.which("tc")):
        sys.exit("this needs root, and the commands ip and tc: apt-get install iproute2")
    os.environ |= OVER_THE_LINK
    with workplace(), two_hosts():
        here = Path.cwd()
        prepare(options.data, here, MINIBATCHES)
        launch = here / "launch"
        launch.write_text(LAUNCH)
        launch.chmod(0o755)
        mpirun = (
            "ip", "netns", "exec", FIRST, MPIRUN, "-launcher", "ssh", "-launcher-exec", str(launch), "-hosts",
            ",".join(HOSTS.values()),
        )  # fmt: skip
        counts = Vocabulary.load("vocab.safetensors").counts
        shape = Shape(len(counts), 300, 300, 2)
        train(2, here=here, launcher=mpirun)  # compiles kernels, if they are not
        found: dict[tuple[str, float | None], list[tuple[float, float, float]]] = {}
        cases = [(noise, rate) for noise in NOISE for rate in (None, *RATES)]
        for number in range(options.rounds):
            for noise, rate in cases[:: -1 if number % 2 else 1]:
                limit(rate)
                before = sent()
                trained = train(2, "--noise", noise, here=here, launcher=mpirun)
                words = trained["tokens"]
                figures = ((sent() - before) / words, trained["bytes_sent"] / words, trained["words_per_second"])
                found.setdefault((noise, rate), []).append(figures)
                print(f"{noise}, {rate} Gbit/s: {figures}", file=sys.stderr, flush=True)
        print(INTRODUCTION.format(rounds=options.rounds))
        for noise, rate in cases:
            wire, said, speed = (statistics.median(column) for column in zip(*found[noise, rate], strict=True))
            model = train_bytes(counts, shape, BATCH, 100, noise, 2)
            free = statistics.median(figures[2] for figures in found[noise, None])
            expected = "" if rate is None else f"{1 / (1 / free + model / (rate * 1e9 / 8 * PAYLOAD)):,.0f}"
            link = "no limit" if rate is None else f"{rate:g} Gbit/s"
            print(f"| {noise} | {link} | {wire:,.0f} | {said:,.0f} | {model:,.0f} | {speed:,.0f} | {expected} |")


if __name__ == "__main__":
    main()
