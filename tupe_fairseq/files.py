"""Atomic writes, locked folders, and JSON files."""

import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

_SHA256 = re.compile("[0-9a-f]{64}")
# in an output folder: the folder of unfinished files, and the file that names the running command
_PARTIAL, _OWNER = ".tupe-partial", ".tupe-at-work"


@contextlib.contextmanager
def atomic_write(path: str, mode: str = "w"):
    """Open ``path`` for writing under a temporary name; it is renamed when the block succeeds.

    Text is UTF-8, newlines are not changed; a missing folder is made; a symbolic link stays a link.
    """
    target = os.path.realpath(path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    partial = f"{target}.partial-{os.getpid()}"  # if two write, the later one wins
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
    """Name the file in the error of a failed write. Errors without errno have their own message."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = path


def atomic_copy(source: str, target: str) -> None:
    """Copy a file; ``target`` only appears when it is complete."""
    with open(source, "rb") as file, atomic_write(target, "wb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)


class OutputFolder(NamedTuple):
    """What :func:`output_folder` yields."""

    partial: str  # a folder for files, which are moved to their place at the end
    lock: int | None  # the file descriptor of the lock, for child processes
    record: dict[str, Any] | None  # the content of the marker, if all files that it lists exist


@contextlib.contextmanager
def output_folder(
    path: str,
    marker: str,
    settings: dict[str, Any],
    *,
    others: Iterable[str] = (),
    overwrite: bool | None = None,
    names: Mapping[str, str] | None = None,
) -> Iterator[OutputFolder]:
    """Lock a folder for a command that can resume. The folder is made if missing.

    Args:
        marker: a file in each finished or resumable folder. It contains ``settings`` as JSON,
            which must be the same.
        others: files that show, while there is no marker yet, that a command can resume.
        overwrite: whether to begin again; None if the command has no such flag.
        names: of the files whose hashes the settings have, for messages.
    """
    with _locked_output(path, marker) as (target, partial, lock):
        record = None
        if os.path.isfile(os.path.join(target, marker)):
            record = _checked_record(path, marker, settings, overwrite, names or {})
            if overwrite:
                for name in [marker, *(record or {}).get("files", [])]:
                    os.remove(os.path.join(target, name))
                record = None
        elif not {*others} & (there := {*os.listdir(target)}) and there - {_OWNER, _PARTIAL}:
            raise ValueError(f"{path} contains other files; give an empty or a new folder")
        yield OutputFolder(partial, lock, record)


@contextlib.contextmanager
def new_output_folder(
    path: str,
    marker: str,
    *,
    sources: Iterable[str],
    others: Iterable[str] = (),
    overwrite: bool = False,
) -> Iterator[str]:
    """Lock a folder, which is made if missing; files in the yielded one are moved to it at the end.

    Args:
        marker: a file in each finished folder.
        sources: the folders and files that are read; none may be this folder or a file in it.
        others: further files that ``overwrite`` replaces or removes.
    """
    folders = [x if os.path.isdir(x) else os.path.dirname(x) for x in sources]
    if os.path.realpath(path) in map(os.path.realpath, folders):
        raise ValueError(f"--output-dir {path} is also an input folder; give another")
    with _locked_output(path, marker) as (target, partial, _):

        def refuse(names: Iterable[str]) -> None:
            there = [name for name in names if os.path.exists(os.path.join(target, name))]
            if there and not overwrite:
                raise FileExistsError(
                    f"{path} already holds {', '.join(there)}; give another --output-dir, or "
                    "--overwrite"
                )

        refuse([marker, *others])
        yield partial
        written = list_files(partial)
        refuse(written)
        for name in {marker, *others} - {*written}:
            with contextlib.suppress(FileNotFoundError):
                os.remove(os.path.join(target, name))


@contextlib.contextmanager
def _locked_output(path: str, marker: str) -> Iterator[tuple[str, str, int | None]]:
    """Lock a folder, which is made if missing, and removed again if it stays empty.

    Yields its real path, a temporary folder and the lock. At the end the files are moved out of the
    temporary folder, the marker last. (It is inside, because the target may be a mounted volume.)
    """
    target = os.path.realpath(path)
    partial, is_new = os.path.join(target, _PARTIAL), not os.path.isdir(target)
    os.makedirs(target, exist_ok=True)
    try:
        with locked(target) as lock:
            shutil.rmtree(partial, ignore_errors=True)  # left by a killed command
            try:
                os.mkdir(partial)
                yield target, partial, lock
                for name in sorted(list_files(partial), key=lambda name: name == marker):
                    os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
                    os.replace(os.path.join(partial, name), os.path.join(target, name))
            except OSError as error:
                _name_file(error, path)
                raise
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it is not empty
                os.rmdir(target)


def _checked_record(
    folder: str,
    marker: str,
    settings: dict[str, Any],
    overwrite: bool | None,
    names: Mapping[str, str],
) -> dict[str, Any] | None:
    """The record of a folder, or None if a file is missing. Refuses other settings."""
    record = read_json(os.path.join(folder, marker))
    before = record.get("settings", record)
    if not {*before} & {*settings}:
        raise ValueError(f"{folder} has the {marker} of another command; give another folder")
    now = json.loads(json.dumps(settings))  # turns tuples into lists
    for name in now:  # former values of options that no longer exist do not matter
        if before.get(name) != now[name] and not overwrite:
            raise ValueError(
                f"{folder} was made with other settings: "
                f"{_difference(name, before.get(name), now[name], names)}; give another folder, or "
                f"{'delete this one' if overwrite is None else '--overwrite'}"
            )
    files = record.get("files", [])
    is_complete = all(os.path.isfile(os.path.join(folder, name)) for name in files)
    return record if is_complete else None


def _difference(name: str, before: Any, now: Any, names: Mapping[str, str]) -> str:
    """What differs; of files only the names, without the hashes or times that identify them."""
    sides = before or [], now or []
    if all(isinstance(side, list) and all(isinstance(x, list) for x in side) for side in sides):
        before, now = ({x[0]: x[1:] for x in side} for side in sides)  # name, size and time
    elif name != "files" or before is None:
        if _SHA256.search(f"{before} {now}"):
            return f"{name} has changed since"
        return f"{name} was {before!r} and is now {now!r}"
    if {*before} != {*now}:
        listed = (", ".join(files) or "not given" for files in (before, now))
        return "{} was {} and is now {}".format(name, *listed)
    changed = [names.get(file, file) for file in now if now[file] != before[file]]
    return f"{', '.join(changed)} {'has' if len(changed) == 1 else 'have'} changed since"


def list_files(folder: str) -> list[str]:
    """All files in a folder and its subfolders, relative to it."""
    paths = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    return sorted(os.path.relpath(path, folder) for path in paths)


@contextlib.contextmanager
def locked(folder: str, wait: bool = False) -> Iterator[int | None]:
    """Directory lock: a second process is refused, or waits.

    Yields the file descriptor of the lock (None on Windows). A child process that inherits it keeps
    the folder locked until it has ended, too.
    """
    try:
        import fcntl
    except ImportError:  # on Windows
        yield None
        return
    owner = os.path.join(folder, _OWNER)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise _busy(folder) from error
        with open(owner, "w", encoding="utf-8") as file:
            file.write(_this_process())
        try:
            yield handle
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(owner)
    finally:
        os.close(handle)


def lock_until_exit(folder: str) -> IO[str] | None:
    """Lock a folder until this process ends, however it does, or the returned file is closed.

    Processes that this one forks, such as those that load data, do not hold the lock. Returns None
    if it cannot be had: the disk has no locks, or the file there is another user's.
    """
    import fcntl

    try:
        file = open(os.path.join(folder, _OWNER), "a", encoding="utf-8")
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _busy(folder) from error
    except OSError:
        return None
    file.truncate(0)
    file.write(_this_process())
    file.flush()
    return file


def _this_process() -> str:
    return f"{os.path.basename(sys.argv[0])} (process {os.getpid()} on {platform.node()})"


def _busy(folder: str) -> ValueError:
    who = "another command"
    with contextlib.suppress(OSError), open(os.path.join(folder, _OWNER), encoding="utf-8") as file:
        who = file.read() or who
    return ValueError(f"{who} is at work in {folder}; wait for it, or give another folder")


def by_index(name: str) -> list[Any]:
    """A key for sorting names: checkpoint_2 before checkpoint_10."""
    return [int(x) if n % 2 else x for n, x in enumerate(re.split(r"(\d+)", name))]


def write_json(path: str, content: Any) -> None:
    """Write ``content`` as readable JSON, atomically."""
    with atomic_write(path) as file:
        json.dump(content, file, indent=2, ensure_ascii=False)
        file.write("\n")


def read_json(path: str) -> dict[str, Any]:
    """Read a file that holds a JSON object."""
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
        except (RecursionError, ValueError) as error:
            raise ValueError(f"{path} is not a JSON file: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a JSON object")
    return content


def file_sha256(path: str) -> str:
    """The SHA-256 of a file, in hexadecimal. Reads the file in parts, to save memory."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()
