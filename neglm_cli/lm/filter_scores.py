"""The scores of a filter run on disk: `OUTPUT.partial`, appended batch by batch, from which a stopped run resumes.

The file is a line of JSON, which identifies models, files and options, and records of the type SCORE.
"""

import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from neglm_cli.errors import NeglmError, shown
from neglm_cli.lm.filtering import SCORE
from neglm_cli.store.output import write_error


class PartialScores:
    """Scores of the batches that a rank has completed. Without a path, they are only in memory."""

    def __init__(self, path: str | None, key: Mapping[str, Any], resume: bool) -> None:
        """key: identifies the run; resume: read the scores of a run with the same key."""
        self.path = path
        self._header = json.dumps(key, sort_keys=True).encode() + b"\n"
        self._earlier = self._read() if resume else np.zeros(0, SCORE)
        self._parts: list[np.ndarray] = []
        self._file = self._create() if path is not None else None
        self.resumed = len(self._earlier)  # records

    def _read(self) -> np.ndarray:
        assert self.path is not None
        try:
            with open(self.path, "rb") as file:
                if file.readline() != self._header:
                    raise NeglmError(
                        f"{shown(self.path)} is not of this run: resume with the same files, models and options, or "
                        "start anew without --resume"
                    )
                data = file.read()
        except FileNotFoundError:
            raise NeglmError(f"there is nothing to resume: {shown(self.path)} does not exist") from None
        except OSError as error:
            raise NeglmError(f"cannot read {shown(self.path)}: {error.strerror or error}") from error
        return np.frombuffer(data[: len(data) // SCORE.itemsize * SCORE.itemsize], SCORE)

    def _create(self) -> io.FileIO:
        assert self.path is not None
        try:
            file = open(self.path, "r+b" if len(self._earlier) else "wb", buffering=0)  # noqa: SIM115
            file.seek(0)
            file.write(self._header)  # the scores that follow are overwritten by the same ones, and kept until then
            return file
        except OSError as error:
            raise write_error(self.path, error) from error

    def take(self, records: int) -> np.ndarray | None:
        """Return the scores of the next batch, if an earlier run has completed it."""
        if records > len(self._earlier):
            self._earlier = self._earlier[:0]
            return None
        scores, self._earlier = self._earlier[:records], self._earlier[records:]
        return scores

    def append(self, scores: np.ndarray) -> None:
        """Add the scores of the next batch."""
        self._parts.append(scores)
        if self._file is not None and self.path is not None:
            try:
                self._file.write(scores.tobytes())
            except OSError as error:
                raise write_error(self.path, error) from error

    @property
    def records(self) -> int:
        """The number of records whose scores are kept."""
        return sum(map(len, self._parts))

    def batches(self) -> list[np.ndarray]:
        return self._parts

    def close(self) -> None:
        """Keep the file for another run."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def remove(self) -> None:
        """Remove the file of a finished run."""
        self.close()
        if self.path is not None:
            with suppress(OSError):  # the output is complete
                os.unlink(self.path)
