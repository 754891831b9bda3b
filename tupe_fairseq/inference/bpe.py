"""fairseq's ``--bpe`` and ``--tokenizer`` of a model: the training data's own, or one by name."""

import argparse
import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from fairseq.data import encoders
from fairseq.dataclass import FairseqDataclass
from fairseq.registry import REGISTRIES
from omegaconf import MISSING

from tupe_fairseq.data.tokenizer import (
    KINDS,
    SENTENCEPIECE_MODEL,
    VOCABULARY,
    Tokenizer,
    find_dictionary,
    find_record,
    recorded_files,
)
from tupe_fairseq.files import file_sha256

logger = logging.getLogger(__name__)

# options of fairseq's --bpe that are files, and their names in a folder
_NAMES = {
    "bpe_codes": ("code", "bpecodes"),
    "bpe_merges": ("merges.txt",),
    "bpe_vocab": ("vocab.json",),
    "gpt2_encoder_json": ("encoder.json",),
    "gpt2_vocab_bpe": ("vocab.bpe",),
    "sentencepiece_model": (SENTENCEPIECE_MODEL,),
}


class RecordedBpe:
    """A ``--bpe`` of fairseq that uses the training data's tokenizer, so tokens are the same."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer

    def encode(self, text: str) -> str:
        return " ".join(self._tokenizer.split(text))

    def decode(self, tokens: str) -> str:
        return self._tokenizer.subwords.join(tokens.split())


class TokenizedBpe:
    """A ``--tokenizer`` of fairseq, and its ``--bpe``, if there is one."""

    def __init__(self, tokenizer: Any, bpe: Any):
        self._parts = [tokenizer] if bpe is None else [tokenizer, bpe]

    def encode(self, text: str) -> str:
        for part in self._parts:
            text = part.encode(text)
        return text

    def decode(self, tokens: str) -> str:
        for part in reversed(self._parts):
            tokens = part.decode(tokens)
        return tokens


def pop_options(
    names: Mapping[str, str | None], options: dict[str, Any], folders: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Take those of fairseq's ``--bpe`` and ``--tokenizer`` of these names out of ``options``.

    Refuses what contradicts the vocabulary.json of the folders.
    """
    popped = {kind: _pop_options(kind, name, options) for kind, name in names.items()}
    folder, record = find_record(folders)
    if folder is None or not os.path.isfile(path := os.path.join(folder, VOCABULARY)):
        return popped
    if names["tokenizer"] or names["bpe"] not in (None, record["kind"]):
        wrong = "tokenizer" if names["tokenizer"] else "bpe"
        raise ValueError(
            f"{wrong}={names[wrong]!r} contradicts {path}, which records {record['kind']} without "
            f"a tokenizer; leave {wrong} out"
        )
    same = {file_sha256(file) for file in recorded_files(folder, record)}
    for name, value in popped["bpe"].items():
        if name not in _NAMES or file_sha256(value) not in same:
            raise ValueError(f"{name}={value!r} differs from what {path} records; leave it out")
    return popped


def _pop_options(kind: str, name: str | None, options: dict[str, Any]) -> dict[str, Any]:
    known, configs = REGISTRIES[kind]["registry"], REGISTRIES[kind]["dataclass_registry"]
    if name is not None and name not in known:
        raise ValueError(f"{kind} {name!r} is none of {', '.join(known)}")
    found = {}
    for option in [*options]:
        of = [key for key, config in configs.items() if hasattr(config(), option)]
        if of and name not in of:
            raise ValueError(f"{option} is an option of {kind}={' or '.join(map(repr, of))}")
        if of:
            found[option] = options.pop(option)
    return found


def file_options(folders: Sequence[str]) -> dict[str, str]:
    """The options of fairseq's ``--bpe`` whose files the folders have under their usual names."""
    found: dict[str, str] = {}
    for option, names in _NAMES.items():
        for path in (os.path.join(folder, name) for folder in folders for name in names):
            if os.path.isfile(path):
                found.setdefault(option, path)
    return found


def chosen_bpe(name: str | None, options: dict[str, Any], folders: Sequence[str]) -> Any:
    """The vocabulary of the folders, or fairseq's bpe of this name; the latter may download."""
    if name is None or os.path.isfile(os.path.join(find_record(folders)[0] or "", VOCABULARY)):
        return recorded_bpe(folders)
    config = REGISTRIES["bpe"]["dataclass_registry"].get(name, FairseqDataclass)
    fields = {field.name: field.default for field in dataclasses.fields(config)}
    files = [option for option in fields if option in _NAMES]
    options = {**{x: path for x, path in file_options(folders).items() if x in files}, **options}
    for option in (x for x in files if x not in options):
        # to one file of two, fairseq would download the other
        if fields[option] == MISSING or any(x in options for x in files):
            raise FileNotFoundError(
                f"bpe={name!r} needs {option}, or {' or '.join(_NAMES[option])} in "
                f"{' or '.join(folders)}"
            )
    if name in KINDS and all(os.path.isfile(str(path)) for path in options.values()):
        files = [options[option] for option in fields if option in options]
        if len(files) == len(KINDS[name][0]):
            return RecordedBpe(Tokenizer(name, files, find_dictionary(folders), {}))
    return encoders.build_bpe(argparse.Namespace(bpe=name, **options))


def recorded_bpe(folders: Sequence[str]) -> RecordedBpe | None:
    """The vocabulary of the first folder that has one, or None."""
    if find_record(folders)[0] is None:
        return None
    try:
        return RecordedBpe(Tokenizer.load(folders))
    except ModuleNotFoundError as error:  # the model itself works without it
        logger.warning("text cannot be encoded: %s", error)
        return None
