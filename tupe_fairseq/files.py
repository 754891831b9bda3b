"""Files: written under a temporary name and renamed, locked folders, JSON, tables."""

import contextlib
import glob
import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

#: what a checkpoint needs beside it, to be used without its data folder
VOCABULARY_FILES = (
    "dict.txt", "input0/dict.txt", "label/dict.txt", "report.json", "sentencepiece.bpe.model",
    "vocabulary.json", "bpecodes", "code", "encoder.json", "vocab.bpe", "vocab.json", "merges.txt",
)  # fmt: skip
# in a folder that a command writes: files that get their place at the end, and who it is
_PARTIAL, _OWNER = ".tupe-partial", ".tupe-at-work"


def find_checkpoint(path: str) -> str:
    """A checkpoint's file: of a folder checkpoint_best.pt, or the model.pt of tupe-convert.

    A model.pt that is not there, the default of ``from_pretrained``, is looked for as of a folder.
    """
    folder, name = os.path.split(path)
    if os.path.isdir(path):
        folder = path
    elif os.path.lexists(path) or name != "model.pt":
        return path
    for name in ("checkpoint_best.pt", "model.pt"):
        if os.path.isfile(os.path.join(folder, name)):
            return os.path.join(folder, name)
    files = sorted(os.path.basename(file) for file in glob.glob(glob.escape(folder) + "/*.pt"))
    if files:
        advice = f"give one of its files: {', '.join(files[:20])}"
    elif os.path.exists(os.path.join(folder, "config.json")):
        advice = "it is for transformers, which loads it, or tupe-convert makes a checkpoint of it"
    else:
        advice = "and no other .pt; give a checkpoint"
    raise FileNotFoundError(f"{folder} has no checkpoint_best.pt and no model.pt; {advice}")


@contextlib.contextmanager
def atomic_write(path: str, mode: str = "w"):
    """Open ``path`` for writing under a temporary name; it is renamed when the block succeeds.

    Text is UTF-8, newlines as written; the folder is made if missing; a symbolic link stays one.
    """
    target = os.path.realpath(path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    partial = f"{target}.partial-{os.getpid()}"  # of two writers the later one wins
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with open(partial, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(partial)
        _name_file(error, path)
        raise


def _name_file(error: BaseException, path: str) -> None:
    """A failed write does not say which file; errors without a number have words of their own."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = path


def atomic_copy(source: str, target: str) -> None:
    """Copy a file; ``target`` appears when it is complete."""
    with open(source, "rb") as file, atomic_write(target, "wb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)


class OutputFolder(NamedTuple):
    """What :func:`output_folder` gives.

    Args:
        path: the folder.
        partial: a folder in it for files that get their place at the end.
        lock: descriptor of the lock, for processes that are started.
        record: the content of the marker, if all files that it lists are there.
    """

    path: str
    partial: str
    lock: int | None
    record: dict[str, Any] | None


@contextlib.contextmanager
def output_folder(
    path: str,
    marker: str,
    settings: dict[str, Any] | None = None,
    *,
    overwrite: bool = False,
    others: Iterable[str] = (),
    may_change: Iterable[str] = (),
) -> Iterator[OutputFolder]:
    """Lock a folder, which is made if missing, while it is written, and check what is in it.

    All is inside of the folder, which may be a mounted volume or have a parent that is read-only.

    Args:
        marker: a file of each finished or resumable folder. It holds ``settings``, as JSON: they
            must be the same. Without settings, ``overwrite`` replaces it.
        others: without settings, further files that ``overwrite`` replaces or removes; else one of
            them shows, before the marker is there, that an interrupted command can go on.
        may_change: settings that need not be the same.
    """
    shown, path = path, os.path.realpath(path)
    is_new, partial = not os.path.isdir(path), os.path.join(path, _PARTIAL)
    os.makedirs(path, exist_ok=True)

    def refuse(names: Iterable[str]) -> None:
        there = [name for name in names if os.path.exists(os.path.join(path, name))]
        if there and not overwrite:
            raise FileExistsError(
                f"{shown} already holds {', '.join(there)}; give another --output-dir, or "
                "--overwrite"
            )

    with contextlib.ExitStack() as stack:
        if is_new:
            stack.callback(_remove_empty, path)
        lock = stack.enter_context(locked(path))
        record = None
        if settings is None:
            refuse([marker, *others])
        elif os.path.isfile(os.path.join(path, marker)):
            record = _checked_record(shown, marker, settings, may_change)
        elif not {*others} & (there := {*os.listdir(path)}) and there - {_OWNER, _PARTIAL}:
            raise ValueError(f"{shown} contains other files; give an empty or a new folder")
        shutil.rmtree(partial, ignore_errors=True)  # of a command that was killed
        stack.callback(shutil.rmtree, partial, ignore_errors=True)
        try:
            os.mkdir(partial)
            yield OutputFolder(path, partial, lock, record)
            written = list_files(partial)
            if settings is None:
                refuse(written)
                for name in {marker, *others} - {*written}:
                    with contextlib.suppress(FileNotFoundError):
                        os.remove(os.path.join(path, name))
            for name in sorted(written, key=lambda name: name == marker):  # the marker last
                os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
                os.replace(os.path.join(partial, name), os.path.join(path, name))
        except OSError as error:
            _name_file(error, shown)
            raise


def _remove_empty(folder: str) -> None:
    with contextlib.suppress(OSError):  # it holds something
        os.rmdir(folder)


def _checked_record(
    folder: str, marker: str, settings: dict[str, Any], may_change: Iterable[str]
) -> dict[str, Any] | None:
    """The record of a folder that was made with these settings, if no file is missing."""
    record = read_json(os.path.join(folder, marker))
    before = record.get("settings", record) if isinstance(record, dict) else {}
    if not {*before} & {*settings}:
        raise ValueError(f"{folder} has the {marker} of another command; give another folder")
    now = json.loads(json.dumps(settings))  # lists instead of tuples
    for name in {**before, **now}:
        if name not in may_change and before.get(name) != now.get(name):
            raise ValueError(
                f"{folder} was made with other settings: {name} was {before.get(name)!r} and is "
                f"now {now.get(name)!r}; give another folder, or delete this one"
            )
    files = record.get("files", [])
    is_complete = all(os.path.isfile(os.path.join(folder, name)) for name in files)
    return record if is_complete else None


def list_files(folder: str) -> list[str]:
    """All files in a folder and below, relative to it."""
    found = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    return sorted(os.path.relpath(path, folder) for path in found)


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
    owner = os.path.join(folder, _OWNER)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        with open(owner, "w", encoding="utf-8") as file:
            program = os.path.basename(sys.argv[0])
            file.write(f"{program} (process {os.getpid()} on {platform.node()})")
        try:
            yield handle
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(owner)
    except BlockingIOError as error:
        who = "another command"
        with contextlib.suppress(OSError), open(owner, encoding="utf-8") as file:
            who = file.read() or who
        raise ValueError(
            f"{who} is at work in {folder}; wait for it, or give another folder"
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
