"""The contents of the files that tupe-convert writes beside a checkpoint."""

import hashlib
import json
from pathlib import Path
from typing import Dict, List

from tupe_fairseq.files.names import DICTIONARY, VOCABULARY
from tupe_fairseq.files.write_together import Sink
from tupe_fairseq.text.foreign_vocabulary import make_record


def as_text(lines: List[str]) -> bytes:
    """A text file of these lines."""
    return "".join(f"{line}\n" for line in lines).encode()


def with_record(
    kind: str, paths: Dict[str, str], dictionary: bytes, max_positions: int
) -> Dict[str, bytes]:
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


def put(content: bytes, file: Sink) -> None:
    """Write a whole file; for :func:`write_together`."""
    file.write(content)
