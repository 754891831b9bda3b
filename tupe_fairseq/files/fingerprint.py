"""The hash of a file."""

import hashlib


def file_sha256(path: str) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal; read in parts, to bound memory."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()
