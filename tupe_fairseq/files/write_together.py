"""Writes several files that belong together: all of them, or none."""

import contextlib
import os
from collections.abc import Callable
from typing import Any


class Sink:
    """A file to write to, whose first error is raised only when it is complete.

    An error amid ``torch.save`` ends the whole process in torch 1.13.

    Args:
        file: a file that is open for writing bytes.
    """

    def __init__(self, file: Any):
        self._file = file
        self._error = None

    def write(self, content) -> int:
        """Write, unless an earlier write has failed."""
        if self._error is None:
            try:
                self._file.write(content)
            except OSError as error:
                self._error = error
        return len(content)

    def flush(self) -> None:
        """Nothing; :meth:`complete` does it."""

    def complete(self) -> None:
        """Bring everything to the disk.

        Raises:
            OSError: what a write has raised, or the disk raises now.
        """
        if self._error is not None:
            raise self._error
        self._file.flush()
        os.fsync(self._file.fileno())


def write_together(contents: dict[str, Callable[[Sink], Any]]) -> None:
    """Write every file under a temporary name, and only then give each its own.

    So a disk that fills up on the way leaves earlier files of these names as they were.

    Args:
        contents (dict): path to a function that writes the content; folders are made if missing.
    Raises:
        OSError: if a file cannot be written; it names the file.
    """
    partials = {path: f"{path}.partial" for path in contents}
    try:
        for path, write in contents.items():
            try:
                os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
                with open(partials[path], "wb") as file:
                    sink = Sink(file)
                    write(sink)
                    sink.complete()
            except OSError as error:
                raise OSError(f"{path} cannot be written: {error.strerror or error}") from error
        for path, partial in partials.items():
            os.replace(partial, path)
    finally:
        for partial in partials.values():
            with contextlib.suppress(OSError):
                os.remove(partial)
