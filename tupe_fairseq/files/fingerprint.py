"""What a file is recognized by, to tell whether it has changed."""

import hashlib
import os
from typing import Any


def file_sha256(path: str) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal; read in parts, to bound memory."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


def content_record(path: str) -> str:
    """What the content of a file is recognized by, whatever its name and time; for JSON."""
    return f"{os.path.getsize(path)} bytes, {file_sha256(path)}"


def fingerprint(path: str, before: Any = None) -> list[Any]:
    """Name, size, time of change and SHA-256 of a file, to be recorded as JSON.

    Args:
        path (str): the file, of any folder.
        before: what was recorded earlier, if anything.  It is returned as it is if the file is
            still the same: by name, size and time, so that a large file need not be read again, or
            by its bytes, since a copy has another time.
    """
    status = os.stat(path)
    now = [os.path.basename(path), status.st_size, status.st_mtime_ns]
    # version 0.1.0 recorded these three
    if isinstance(before, list) and before[:3] == now:
        return before
    now.append(file_sha256(path))
    if isinstance(before, list) and before[:2] + before[3:] == now[:2] + now[3:]:
        return before
    return now


def is_fingerprint(value: Any) -> bool:
    """Whether a recorded value is one."""
    return isinstance(value, list) and list(map(type, value[:3])) == [str, int, int]
