"""Tells a whole checkpoint from what an interrupted or failing machine has left of one."""

import zipfile

# torch's files since 1.6 are archives, whose list of entries is at the end; older ones are pickles
_ARCHIVE, _PICKLE = b"PK\x03\x04", b"\x80"


def damage(path: str) -> str | None:
    """What is wrong with the bytes of a checkpoint; nothing of it is loaded, nor kept in memory.

    Every entry is read and compared with its checksum, so that a part that never reached the disk
    is noticed, too.  Torch's files from before 1.6 have neither checksums nor a list of
    entries: one that is cut short is taken for whole.

    Args:
        path (str): the file.
    Returns:
        str: what is wrong, in words; None if the file is whole.
    Raises:
        OSError: if it cannot be opened.
    """
    with open(path, "rb") as file:
        start = file.read(len(_ARCHIVE))
    if start != _ARCHIVE:
        if not start:
            return "it is empty"
        return None if start.startswith(_PICKLE) else "it does not begin as a checkpoint does"
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
    except Exception as error:  # a damaged archive can raise anything
        return f"{type(error).__name__}: {error}"
    return None if broken is None else f"the checksum of {broken} is wrong"
