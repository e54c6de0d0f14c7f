"""What tells whether a file has changed: XXH3-128 of the XXH3-128 digests of its blocks.

Hashing by blocks lets threads hash a file together, each the part it reads anyway.
"""

from collections.abc import Iterable

import xxhash

BLOCK = 4 << 20  # bytes; part of the definition


def combine(digests: Iterable[bytes]) -> str:
    """The fingerprint of a file, from the digests of its blocks in order."""
    return xxhash.xxh3_128_hexdigest(b"".join(digests))


class BlockDigests:
    """Digests of the blocks of a stream that comes in pieces of any size."""

    def __init__(self) -> None:
        self._open = xxhash.xxh3_128()
        self._open_size = 0
        self._finished: list[bytes] = []

    def update(self, data: memoryview) -> None:
        while len(data):
            piece = data[: BLOCK - self._open_size]
            self._open.update(piece)
            self._open_size += len(piece)
            data = data[len(piece) :]
            if self._open_size == BLOCK:
                self._close_block()

    def finish(self) -> list[bytes]:
        """All digests; the last block may be short."""
        if self._open_size:
            self._close_block()
        return self._finished

    def _close_block(self) -> None:
        self._finished.append(self._open.digest())
        self._open.reset()
        self._open_size = 0
