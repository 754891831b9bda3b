"""Writes files that appear under their name only when complete."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator


@contextlib.contextmanager
def atomic_write(path: str, mode: str = "w"):
    """Open ``path`` for writing under a temporary name; it is renamed when the block succeeds.

    Args:
        path (str): the file; its folder is made if missing.
        mode (str): "w" (UTF-8, newline as written) or "wb".
    Raises:
        OSError: as ``open`` and ``write``, a full disk included; ``path`` is then as it was.
    """
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    partial = path + ".partial"
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with open(partial, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(partial)
        # a failed write does not say which file; errors without a number have words of their own
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = path
        raise


def atomic_copy(source: str, target: str) -> None:
    """Copy a file; ``target`` appears when it is complete.

    Raises:
        OSError: as :func:`atomic_write`.
    """
    with open(source, "rb") as file, atomic_write(target, "wb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)


@contextlib.contextmanager
def new_folder(
    path: str, overwrite: bool, first: Iterable[str], stale: Iterable[str] = ()
) -> Iterator[str]:
    """A temporary folder beside ``path`` that gets its name, or whose files move there, at the end.

    Args:
        first: files that may not be there at the beginning, without ``overwrite``.
        stale: files of an earlier run that are removed at the end.
    """

    def refuse(names: Iterable[str]) -> None:
        there = [name for name in names if os.path.exists(os.path.join(path, name))]
        if there and not overwrite:
            raise FileExistsError(
                f"{path} already holds {', '.join(there)}; give another --output-dir, or "
                "--overwrite"
            )

    refuse(first)
    path = os.path.realpath(path)
    partial = f"{path}.partial-{os.getpid()}"
    os.makedirs(partial)
    try:
        yield partial
        if not os.path.isdir(path):
            os.rename(partial, path)
            return
        written = sorted(
            os.path.relpath(os.path.join(folder, name), partial)
            for folder, _, names in os.walk(partial)
            for name in names
        )
        refuse(written)
        for name in written:
            os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
            os.replace(os.path.join(partial, name), os.path.join(path, name))
        for name in {*stale} - {*written}:
            with contextlib.suppress(FileNotFoundError):
                os.remove(os.path.join(path, name))
    except OSError as error:
        if error.errno is not None and error.filename is None:  # a failed write
            error.filename = path
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_json(path: str, content) -> None:
    """Write ``content`` as readable JSON, atomically."""
    with atomic_write(path) as file:
        json.dump(content, file, indent=2, ensure_ascii=False)
        file.write("\n")


def read_json(path: str):
    """Read a JSON file.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not a JSON file in UTF-8; the message names the file.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"{path} is not a file")  # a pipe would be waited for
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)
        except RecursionError as error:
            raise ValueError(f"{path} is not a JSON file of ours: it is nested too deep") from error
        except ValueError as error:
            raise ValueError(f"{path} is not a JSON file: {error}") from error
