"""The vocabulary of a converted checkpoint, which its folder and the data made with it record."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from tupe_fairseq.files.atomic import read_json
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.names import DICTIONARY, SENTENCEPIECE_MODEL, VOCABULARY
from tupe_fairseq.text.fast_bpe import FastBpe, check_codes
from tupe_fairseq.text.gpt2_bpe import Gpt2Bpe, check_numbers
from tupe_fairseq.text.listed_pieces import ListedPieces
from tupe_fairseq.text.pieces import Pieces, check_pieces
from tupe_fairseq.text.treatment import AsItIs


class Kind(NamedTuple):
    """A kind of vocabulary.

    Args:
        files (tuple of str): the names of its files in a folder.
        text (str): what is done to a line before it is split, in words.
        open (callable): the paths of the files -> an object with ``split`` and ``join``.
        check (callable): the paths and the words of a dict.txt; refuses files that do not fit.
    """

    files: tuple[str, ...]
    text: str
    open: Callable[..., Any]
    check: Callable[..., None]


KINDS = {
    "fastbpe": Kind(
        ("bpecodes",), "lower case, tokenized (Moses), as by the TUPE authors", FastBpe, check_codes
    ),
    "gpt2": Kind(("encoder.json", "vocab.bpe"), "as it is", Gpt2Bpe, check_numbers),
    "sentencepiece": Kind((SENTENCEPIECE_MODEL,), "as it is", Pieces, check_pieces),
}


class ForeignVocabulary:
    """A vocabulary that this project did not learn, from a folder with a vocabulary.json.

    Args:
        folder (str): the folder; dict.txt and the files of the vocabulary are beside the record.
    Raises:
        OSError: if a file is missing.
        ValueError: if the record or a file is broken, or a file has changed since.
        ModuleNotFoundError: if a package that this kind needs is not installed.
    """

    def __init__(self, folder: str):
        record = _read_record(folder)
        #: name to path of every file that data made with the vocabulary needs, but dict.txt
        self.files = vocabulary_files(folder)
        self.dictionary = os.path.join(folder, DICTIONARY)
        for name, digest in record["sha256"].items():
            path = os.path.join(folder, name)
            if not os.path.isfile(path):
                raise FileNotFoundError(f"{path} is missing; {VOCABULARY} there names it")
            if file_sha256(path) != digest:
                raise ValueError(f"{path} has changed since {VOCABULARY} there was written")
        self.kind = record["kind"]
        self.max_positions = record["max_positions"]
        kind = KINDS[self.kind]
        self.splitter = kind.open(*(os.path.join(folder, name) for name in kind.files))
        self.pieces = ListedPieces(self.dictionary, self.splitter)
        self.treatment = AsItIs()


def is_recorded(folder: str) -> bool:
    """Whether a folder records a vocabulary."""
    return os.path.isfile(os.path.join(folder, VOCABULARY))


def vocabulary_files(folder: str) -> dict[str, str]:
    """Name and path of the record and of the vocabulary's files; dict.txt is not among them.

    Raises:
        OSError, ValueError: if the record is missing or broken.
    """
    names = [VOCABULARY, *KINDS[_read_record(folder)["kind"]].files]
    return {name: os.path.join(folder, name) for name in names}


def make_record(kind: str, hashes: dict[str, str], max_positions: int) -> dict[str, Any]:
    """The content of vocabulary.json.

    Args:
        kind (str): one of :data:`KINDS`.
        hashes (dict): name to SHA-256 of dict.txt and of the vocabulary's files.
        max_positions (int): the longest sample of the converted model.
    """
    return {
        "kind": kind,
        "text": KINDS[kind].text,
        "max_positions": max_positions,
        "sha256": hashes,
    }


def _read_record(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, VOCABULARY)
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"{path} is missing; tupe-convert writes it, if given the files of the vocabulary "
            "(--bpe-codes, --gpt2-encoder-json and --gpt2-vocab-bpe, or --sentencepiece-model)"
        )
    record: Any = read_json(path)
    kind: Kind | None = None
    if isinstance(record, dict) and isinstance(record.get("kind"), str):
        kind = KINDS.get(record["kind"])
    if (
        kind is None
        or record.get("text") != kind.text
        or type(record.get("max_positions")) is not int
        or not isinstance(record.get("sha256"), dict)
        or set(record["sha256"]) != {DICTIONARY, *kind.files}
    ):
        raise ValueError(
            f"{path} does not name a vocabulary that this version of tupe_fairseq knows: "
            f"{', '.join(KINDS)}; convert the checkpoint again"
        )
    return record
