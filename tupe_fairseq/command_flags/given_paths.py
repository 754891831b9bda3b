"""Paths on the command line; messages name flag, path, and what is in the way."""

import os
from collections.abc import Iterable


def check_is_file(flag: str, path: str, advice: str = "") -> None:
    """Refuse what is not there, or is no plain file.

    Args:
        flag (str): the flag.
        path (str): what it was given.
        advice (str): the end of the message.
    Raises:
        FileNotFoundError: it names the flag.
    """
    if not os.path.isfile(path):
        reason = "is not a file" if os.path.exists(path) else "does not exist"
        raise FileNotFoundError(f"{flag} {path} {reason}{advice}")


def check_is_checkpoint(path: str) -> None:
    """Refuse a CHECKPOINT that is not there, or is no plain file.

    Raises:
        FileNotFoundError: it names the file.
    """
    check_is_file("CHECKPOINT", path, "; give a checkpoint")


def check_is_folder(flag: str, path: str) -> None:
    """Refuse what is no folder.

    Raises:
        FileNotFoundError: it names the flag.
    """
    if not os.path.isdir(path):
        raise FileNotFoundError(f"{flag} {path} is not a folder")


def can_be_written(flag: str, folder: str) -> None:
    """Refuse a folder that cannot be made or written to, without making it.

    Raises:
        ValueError: the message names the flag, and what is in the way.
    """
    place = os.path.abspath(folder)
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise ValueError(f"{flag} {folder}: {place} is not a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ValueError(f"{flag} {folder}: {place} may not be written to; give another folder")


def can_be_output(flag: str, path: str, inputs: Iterable[str | None]) -> None:
    """Refuse a file that cannot be written, or would replace what is read.

    Args:
        flag (str): the flag.
        path (str): what it was given.
        inputs (iterable of str): the files that are read; None stands for none.
    Raises:
        ValueError: the message names the flag, and what is in the way.
    """
    if os.path.isdir(path):
        raise ValueError(f"{flag} {path} is a folder")
    for source in inputs:
        both = source is not None and os.path.exists(source) and os.path.exists(path)
        if both and os.path.samefile(source, path):
            raise ValueError(f"{flag} {path} is an input, which would be replaced")
    can_be_written(flag, os.path.dirname(path) or ".")


def refuse_files_there(folder: str, names: Iterable[str], overwrite: bool) -> None:
    """Refuse to write over files of an earlier run.

    Args:
        folder (str): ``--output-dir``.
        names (iterable of str): what is to be written there.
        overwrite (bool): whether it may be.
    Raises:
        FileExistsError: if one of them is there.
    """
    existing = [name for name in names if os.path.exists(os.path.join(folder, name))]
    if existing and not overwrite:
        raise FileExistsError(
            f"{folder} already holds {', '.join(existing)}; give another --output-dir, or "
            "--overwrite"
        )


def no_separators(flag: str, path: str, separators: str = ":") -> None:
    """Refuse a path that fairseq would take for a list of paths.

    Raises:
        ValueError: if one of the separators is in it.
    """
    for sign in separators:
        if sign in path:
            raise ValueError(
                f"{flag} {path} contains {sign!r}, at which fairseq splits lists; use another path"
            )
