"""The machine code (SASS) of compiled kernels: what their innermost loops consist of. Used by `gpu_kernels.py`."""

import re
from collections import Counter
from typing import NamedTuple

KINDS = {
    "FFMA": r"FFMA", "other float": r"F(ADD|MUL|SETP|SEL|MNMX|CHK)|MUFU|D(ADD|MUL|FMA|SETP)|I2F|F2[FI]",
    "shared": r"LDS|STS", "global": r"LDG|STG|RED|ATOM|LD\b|ST\b",
    "integer": r"IMAD|IADD|LEA|SHF|LOP|ISETP|SEL|IMNMX|VIADD|VIMNMX|PRMT|UIADD|ULEA|UIMAD|USHF|ULOP|UISETP|USEL",
}  # fmt: skip


class Loop(NamedTuple):
    """An innermost loop: its instructions, by kind."""

    size: int
    kinds: Counter[str]

    @property
    def share(self) -> float:
        """Return the share of fused multiply-adds."""
        return self.kinds["FFMA"] / self.size


def instructions(listing: str) -> tuple[list[str], dict[str, int]]:
    """Return the instructions of nvdisasm's listing, and the positions of labels."""
    found: list[str] = []
    labels: dict[str, int] = {}
    for line in listing.splitlines():
        if label := re.match(r"(\.L_\w+):", line.strip()):
            labels[label[1]] = len(found)
        elif code := re.match(r"\s*/\*[0-9a-f]+\*/\s+(.*?)\s*;", line):
            found.append(code[1])
    return found, labels


def busiest_loop(listing: str) -> Loop | None:
    """Return the innermost loop with the most fused multiply-adds, or the largest one; None without loops."""
    code, labels = instructions(listing)
    loops = []
    for at, text in enumerate(code):
        target = re.search(r"\bBRA\b.*?(\.L_\w+)", text)
        if target and labels.get(target[1], at + 1) <= at and labels[target[1]] < at:
            loops.append((labels[target[1]], at))
    inner = [loop for loop in loops if not any(other != loop and _inside(other, loop) for other in loops)]
    made = [Loop(end - start + 1, Counter(map(_kind, code[start : end + 1]))) for start, end in inner]
    return max(made, key=lambda loop: (loop.kinds["FFMA"], loop.size), default=None)


def _inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _kind(text: str) -> str:
    name = re.sub(r"^@!?U?P\w+\s+", "", text)
    return next((kind for kind, pattern in KINDS.items() if re.match(pattern, name)), "other")
