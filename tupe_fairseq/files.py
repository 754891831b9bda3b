"""Files: written under a temporary name and renamed, locked folders, JSON, tables."""

import contextlib
import glob
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

#: what a checkpoint needs beside it, to be used without its data folder
VOCABULARY_FILES = (
    "dict.txt", "input0/dict.txt", "label/dict.txt", "report.json", "sentencepiece.bpe.model",
    "vocabulary.json", "bpecodes", "code", "encoder.json", "vocab.bpe", "vocab.json", "merges.txt",
)  # fmt: skip


@contextlib.contextmanager
def atomic_write(path: str, mode: str = "w"):
    """Open ``path`` for writing under a temporary name; it is renamed when the block succeeds.

    Text is UTF-8, newlines as written; the folder is made if missing.
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
    """Copy a file; ``target`` appears when it is complete."""
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


def check_settings(folder: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to go on in a folder that was made with other settings."""
    for name in {**before, **now}:
        if before.get(name) != now.get(name):
            raise ValueError(
                f"{folder} was made with other settings: {name} was {before.get(name)!r} and is "
                f"now {now.get(name)!r}; give another folder, or delete this one"
            )


@contextlib.contextmanager
def locked(folder: str, wait: bool = False) -> Iterator[int | None]:
    """Keep a second process out of a folder: it is refused, or waits.

    Yields the descriptor that holds the lock (None on Windows): a child process that is given it
    keeps the folder locked until it, too, has ended.
    """
    try:
        import fcntl
    except ImportError:  # on Windows
        yield None
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield handle
    except BlockingIOError as error:
        raise ValueError(
            f"another process is using {folder}; wait for it, or give another folder"
        ) from error
    finally:
        os.close(handle)


def write_json(path: str, content: Any) -> None:
    """Write ``content`` as readable JSON, atomically."""
    with atomic_write(path) as file:
        json.dump(content, file, indent=2, ensure_ascii=False)
        file.write("\n")


def read_json(path: str) -> Any:
    """Read a JSON file."""
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)
        except (RecursionError, ValueError) as error:
            raise ValueError(f"{path} is not a JSON file: {error}") from error


def file_sha256(path: str) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal; read in parts, to bound memory."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


def markdown_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table, with the first column left-aligned and the others right-aligned."""
    header = list(header)
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def write_results(folder: str, content: dict[str, Any], table: str) -> None:
    """Write FOLDER/results.json and FOLDER/results.md."""
    write_json(os.path.join(folder, "results.json"), content)
    with atomic_write(os.path.join(folder, "results.md")) as file:
        file.write(table)


def copy_vocabulary(data: str, folder: str) -> None:
    """Copy the ``VOCABULARY_FILES`` of a data folder, and the dictionaries of languages."""
    for name in (*VOCABULARY_FILES, *glob.glob("dict.*.txt", root_dir=data)):
        source, copy = os.path.join(data, name), os.path.join(folder, name)
        if os.path.isfile(source) and os.path.realpath(source) != os.path.realpath(copy):
            atomic_copy(source, copy)


def remove_vocabulary(folder: str) -> None:
    """Remove the ``VOCABULARY_FILES``, if they are there."""
    for name in VOCABULARY_FILES:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            os.remove(path)
            if os.path.dirname(path) != folder and not os.listdir(os.path.dirname(path)):
                os.rmdir(os.path.dirname(path))
