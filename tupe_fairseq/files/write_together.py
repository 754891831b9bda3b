"""Writes several files that belong together: all of them, or none."""

import contextlib
import os
from typing import IO, Callable, Dict


def write_together(contents: Dict[str, Callable[[IO[bytes]], None]]) -> None:
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
                    write(file)
                    file.flush()
                    os.fsync(file.fileno())
            # torch.save says so when its file can take no more
            except (OSError, RuntimeError) as error:
                reason = getattr(error, "strerror", None) or "is the disk full?"
                raise OSError(f"{path} cannot be written: {reason}") from error
        for path, partial in partials.items():
            os.replace(partial, path)
    finally:
        for partial in partials.values():
            with contextlib.suppress(OSError):
                os.remove(partial)
