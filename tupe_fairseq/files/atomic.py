"""Writes files that appear under their name only when complete."""

import contextlib
import json
import os
import shutil


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
