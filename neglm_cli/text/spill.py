"""Arrays that exceed memory, in files of a temporary directory (see TMPDIR)."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from neglm_cli.errors import NeglmError


class SpilledArrays:
    """Arrays on disk, one file each: first appended to, then mapped into memory. Deleted by `close`."""

    def __init__(self, *dtypes: type) -> None:
        self._dtypes = dtypes
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._files: list[BinaryIO] = []

    def append(self, *arrays: np.ndarray) -> None:
        """Append to each of the arrays."""
        with _errors():
            if self._directory is None:
                self._directory = tempfile.TemporaryDirectory(prefix="neglm-")
                self._files = self._create(self._directory.name)
            for file, array in zip(self._files, arrays, strict=True):
                file.write(array.data)

    def mapped(self) -> list[np.ndarray]:
        """Return the arrays, memory-mapped. No more can be appended."""
        with _errors():
            for file in self._files:
                file.close()
        # Mode "c" and a plain array give kernels the same type as arrays in memory.
        return [
            np.asarray(np.memmap(file.name, dtype, "c")) for file, dtype in zip(self._files, self._dtypes, strict=True)
        ]

    def close(self) -> None:
        """Delete the files. Mapped arrays stay valid."""
        for file in self._files:
            with suppress(OSError):  # the files are deleted anyway
                file.close()
        if self._directory is not None:
            self._directory.cleanup()

    def _create(self, directory: str) -> list[BinaryIO]:
        return [open(Path(directory, str(i)), "wb") for i in range(len(self._dtypes))]


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NeglmError(
            f"cannot write to the temporary directory {tempfile.gettempdir()}: {error.strerror or error}; "
            "set TMPDIR to a directory with more space, or raise --memory"
        ) from error
