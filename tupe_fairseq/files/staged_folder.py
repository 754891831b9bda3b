"""A folder that appears under its name only when it is complete."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence

from tupe_fairseq.files.lock import locked


@contextlib.contextmanager
def staged_folder(path: str, known: Sequence[str], overwrite: bool = False) -> Iterator[str]:
    """Yields PATH.partial to write to; it gets its name when the block succeeds.

    Args:
        path (str): the folder; the one that it is in is made if missing.
        known (sequence of str): the files that may be written there, by their path within it; one
            with "/" at its end stands for all files in a folder.
        overwrite (bool): whether ``path`` may be there already.  What was written replaces files
            of the same name, known ones that were not written now are removed, and all others stay.
    Raises:
        OSError: if ``path`` is there already, or is not a folder; as writing and renaming.
        ValueError: if another process is writing it; if PATH.partial is there and holds other
            files than an interrupted run leaves.
    """
    path = os.path.realpath(path)
    refuse_existing(path, overwrite)
    partial = f"{path}.partial"
    if os.path.lexists(partial):
        _refuse_others(partial, known)
    os.makedirs(partial, exist_ok=True)
    with locked(partial):
        try:
            for name in os.listdir(partial):  # of an interrupted run
                _remove(os.path.join(partial, name))
            yield partial
            if os.path.isdir(path):
                _replace_files(partial, path, known)
            else:
                os.rename(partial, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def refuse_existing(path: str, overwrite: bool) -> None:
    """Refuse what is there already and may not be overwritten.

    Raises:
        OSError: the message names it.
    """
    if os.path.lexists(path) and not os.path.isdir(path):
        raise NotADirectoryError(f"{path} is there and is not a folder; give another --output-dir")
    if os.path.isdir(path) and not overwrite:
        raise FileExistsError(f"{path} is there already; give another --output-dir, or --overwrite")


def _files_in(folder: str) -> list[str]:
    """Their paths within it."""
    return [
        os.path.relpath(os.path.join(place, name), folder)
        for place, _, names in os.walk(folder)
        for name in names
    ]


def _is_known(name: str, known: Sequence[str]) -> bool:
    return any(name == one or (one.endswith("/") and name.startswith(one)) for one in known)


def _refuse_others(partial: str, known: Sequence[str]) -> None:
    names = _files_in(partial) if os.path.isdir(partial) else [""]
    suffix = ".partial"
    for name in names:
        whole = name[: -len(suffix)] if name.endswith(suffix) else name
        if not _is_known(whole, known):
            raise ValueError(
                f"{os.path.join(partial, name)} was not written by this command, which needs the "
                "name for what is not yet complete; move it away"
            )


def _replace_files(partial: str, path: str, known: Sequence[str]) -> None:
    new = _files_in(partial)
    for name in new:
        os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
        os.replace(os.path.join(partial, name), os.path.join(path, name))
    for name in _files_in(path):
        if _is_known(name, known) and name not in new:
            os.remove(os.path.join(path, name))


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.remove(path)
