"""Fingerprints of files, to detect changes: XXH3-128 of the XXH3-128 digests of its blocks.

Hashing by blocks lets each thread hash the part of a file that it reads.
"""

from collections.abc import Iterable

import xxhash

BLOCK = 4 << 20  # bytes; part of the definition


def combine(digests: Iterable[bytes]) -> str:
    """Return the fingerprint of a file, from the digests of its blocks in order."""
    return xxhash.xxh3_128_hexdigest(b"".join(digests))


class BlockDigests:
    """Digests of a stream's blocks, updated with chunks of any size."""

    def __init__(self) -> None:
        self._open = xxhash.xxh3_128()
        self._open_size = 0
        self._finished: list[bytes] = []

    def update(self, data: memoryview) -> None:
        while len(data):
            chunk = data[: BLOCK - self._open_size]
            self._open.update(chunk)
            self._open_size += len(chunk)
            data = data[len(chunk) :]
            if self._open_size == BLOCK:
                self._close_block()

    def finish(self) -> list[bytes]:
        """Return all digests; the last block may be short."""
        if self._open_size:
            self._close_block()
        return self._finished

    def _close_block(self) -> None:
        self._finished.append(self._open.digest())
        self._open.reset()
        self._open_size = 0
