"""The folder that tupe-convert and tupe-extend write: a checkpoint, and the files beside it."""

import contextlib
import functools
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch

from tupe_fairseq.command_flags.given_paths import refuse_files_there
from tupe_fairseq.files.names import DICTIONARY, MODEL, VOCABULARY
from tupe_fairseq.files.write_together import Sink, write_together
from tupe_fairseq.text.foreign_vocabulary import make_record


def as_text(lines: list[str]) -> bytes:
    """A text file of these lines."""
    return "".join(f"{line}\n" for line in lines).encode()


def with_record(
    kind: str, paths: dict[str, str], dictionary: bytes, max_positions: int
) -> dict[str, bytes]:
    """The files of a vocabulary by name, and the record of them.

    Args:
        kind (str): the kind of vocabulary.
        paths (dict): its files by the names that they get.
        dictionary (bytes): the content of dict.txt.
        max_positions (int): the longest sample of the model.
    """
    found = {name: Path(path).read_bytes() for name, path in paths.items()}
    hashes = {
        name: hashlib.sha256(content).hexdigest()
        for name, content in {DICTIONARY: dictionary, **found}.items()
    }
    record = json.dumps(make_record(kind, hashes, max_positions), indent=2)
    return {**found, VOCABULARY: f"{record}\n".encode()}


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
