"""The folder that tupe-convert and tupe-extend write: a checkpoint, and the files beside it."""

import contextlib
import functools
import json
import os
from pathlib import Path
from typing import Any

import torch

from tupe_fairseq.command_flags.given_paths import refuse_files_there
from tupe_fairseq.files.names import MODEL, VOCABULARY
from tupe_fairseq.files.write_together import Sink, write_together


def as_text(lines: list[str]) -> bytes:
    """A text file of these lines."""
    return "".join(f"{line}\n" for line in lines).encode()


def with_record(
    kind: str,
    paths: dict[str, str],
    max_positions: int,
    clean: bool = False,
    lowercase: bool = False,
) -> dict[str, bytes]:
    """The files of a vocabulary by name, and the record of them.

    Args:
        kind (str): the kind of vocabulary.
        paths (dict): its files by the names that they get.
        max_positions (int): the longest sample of the model.
        clean, lowercase (bool): how text was cleaned; not at all by other programs.
    """
    found = {name: Path(path).read_bytes() for name, path in paths.items()}
    record = {"kind": kind, "clean": clean, "lowercase": lowercase, "max_positions": max_positions}
    return {**found, VOCABULARY: f"{json.dumps(record, indent=2)}\n".encode()}


def write_folder(
    folder: str, state: dict[str, Any], files: dict[str, bytes], overwrite: bool
) -> list[str]:
    """Write the checkpoint as model.pt, and the other files: all of them, or none.

    A vocabulary that an earlier run recorded there, which may be another dict.txt's, goes.

    Args:
        folder (str): ``--output-dir``.
        state (dict): the checkpoint.
        files (dict): names in the folder to contents.
        overwrite (bool): whether files of an earlier run are replaced.
    Returns:
        list of str: the paths.
    Raises:
        OSError: if one of them is there already, or cannot be written.
    """
    refuse_files_there(folder, [MODEL, *files], overwrite)
    write = {MODEL: functools.partial(torch.save, state)}
    write.update((name, functools.partial(_put, content)) for name, content in files.items())
    paths = {os.path.join(folder, name): one for name, one in write.items()}
    write_together(paths)
    if VOCABULARY not in files:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, VOCABULARY))
    return list(paths)


def _put(content: bytes, file: Sink) -> None:
    file.write(content)
