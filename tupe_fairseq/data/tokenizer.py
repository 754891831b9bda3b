"""Text to ids of fairseq's dictionary, with the vocabulary of a data or checkpoint folder.

A folder has dict.txt, the files of its vocabulary and vocabulary.json, which records its kind and
how a line is cleaned before it is split:

    {"kind": "sentencepiece", "clean": true, "lowercase": false, "max_positions": 512}

``clean`` means :func:`clean_line`, as for the vocabularies that we learn; other vocabularies get
the text unchanged, also those without a vocabulary.json, which are known by the names of their
files. ``max_positions`` is the longest sample that data and model were made for.
"""

import glob
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tupe_fairseq.data import subwords
from tupe_fairseq.data.dictionary import (
    DICTIONARY,
    FILLER,
    MASK,
    REPORT,
    SPECIAL_TOKENS,
    UNK,
    word_ids,
)
from tupe_fairseq.data.indexed import flat, token_dtype
from tupe_fairseq.data.text_files import MUCH, clean_line
from tupe_fairseq.files import atomic_copy, read_json, write_json

VOCABULARY = "vocabulary.json"
#: the name that fairseq's hub looks for next to a checkpoint
SENTENCEPIECE_MODEL = "sentencepiece.bpe.model"

#: the file names of each kind of vocabulary, and the class that splits text with them
KINDS = {
    "gpt2": (("encoder.json", "vocab.bpe"), subwords.Gpt2Bpe),
    "sentencepiece": ((SENTENCEPIECE_MODEL,), subwords.SentencePiece),
}
#: files that say what the ids of a data folder, or of a model, mean
VOCABULARY_FILES = (
    *(os.path.join(part, DICTIONARY) for part in ("", "input0", "label")),
    *(name for names, _ in KINDS.values() for name in names),
    *(VOCABULARY, REPORT),
)
_FILES = f"{SENTENCEPIECE_MODEL}, or encoder.json and vocab.bpe"
#: further files that fairseq's hub looks for
OTHER_FILES = ("code", "bpecodes", "vocab.json", "merges.txt")
# other than the space: the model's ids would be those of unknown tokens
_WHITE_SPACE = re.compile(r"[^\S ]")


class Tokenizer:
    """Encodes text as the training text of a model was encoded.

    A special token that a text spells out, such as ``<mask>``, is not that token, but text.
    """

    def __init__(self, kind: str, paths: Sequence[str], dictionary: str, record: dict[str, Any]):
        if kind not in KINDS:
            raise ValueError(f"the vocabulary {kind!r} is none of {', '.join(KINDS)}")
        self.kind, self.paths, self.dictionary = kind, list(paths), dictionary
        self.record = {
            "kind": kind,
            "clean": bool(record.get("clean")),
            "lowercase": bool(record.get("lowercase")),
            "max_positions": record.get("max_positions"),
        }
        self.max_positions = self.record["max_positions"]
        self.subwords: Any = KINDS[kind][1](*paths)
        self.ids = word_ids(dictionary)
        self.symbols = list(self.ids)
        self.ids.update(dict.fromkeys((*SPECIAL_TOKENS, MASK), UNK))
        words = [x for x in self.ids if self.ids[x] != UNK and not FILLER.fullmatch(x)]
        unfit = self.subwords.unfit(words)
        if unfit:
            raise ValueError(
                f"{' and '.join(paths)} ({kind}) and the dictionary do not fit: "
                f"{len(unfit)} of its {len(words)} words are not subwords, such as "
                f"{', '.join(unfit[:3])}; give the vocabulary that the training data was made with"
            )
        self._ids: np.ndarray | None = None
        if kind == "sentencepiece" and set(words) <= set(self.subwords.pieces):
            # maps each id of the model to its id in the dictionary
            ids = [self.ids.get(piece, UNK) for piece in self.subwords.pieces]
            self._ids = np.array(ids, token_dtype(len(self.symbols)))

    @classmethod
    def load(
        cls,
        folders: str | Sequence[str],
        given: tuple[str, Sequence[str]] | None = None,
    ) -> "Tokenizer":
        """Load the vocabulary of the first folder that has one, and the first dictionary.

        ``given`` is a kind of vocabulary and its files, used instead.
        """
        folders = [folders] if isinstance(folders, str) else list(folders)
        dictionary = find_dictionary(folders)
        folder, record = find_record(folders)
        if given is not None:
            kind, paths = given
            if record.get("kind") != kind:
                record = {}
        elif folder is None:
            raise FileNotFoundError(
                f"there is no vocabulary in {' or '.join(folders)}; copy its files there "
                f"({VOCABULARY} and what it names, or {_FILES}), or give the folder that the "
                "checkpoint was trained with, --data (in Python, also bpe and its files)"
            )
        else:
            kind, paths = record["kind"], recorded_files(folder, record)
        return cls(kind, paths, dictionary, record)

    def normalize(self, text: str) -> str:
        """The text cleaned as the training text was; unchanged for other programs' vocabularies."""
        return clean_line(text, self.record["lowercase"]) if self.record["clean"] else text

    def split(self, text: str) -> list[str]:
        """The subwords of a text, listed in the dictionary or not."""
        return self.subwords.split(self.normalize(text))

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without ``<s>`` and ``</s>``."""
        return self.encode_batch([self.normalize(text)])[0]

    def encode_batch(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of normalized lines."""
        ids, lengths = self.encode_flat(lines)
        all_ids, ends = ids.tolist(), np.cumsum(lengths).tolist()
        return [all_ids[start:end] for start, end in zip([0, *ends], ends)]

    def encode_flat(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of normalized lines in one array, and how many each line has."""
        if self._ids is not None and not any(map(_WHITE_SPACE.search, lines)):
            ids, lengths = flat(self.subwords.split_ids(lines))
            return self._ids[ids], lengths
        get, split = self.ids.get, self.subwords.split
        return flat([[get(subword, UNK) for subword in split(line)] for line in lines])

    def encode_rows(
        self, rows: Sequence[Sequence[str]], of_words: bool = False
    ) -> list[list[list[int]]]:
        """The ids of each text of each row.

        With ``of_words``, a row is the words of a sentence: each has the ids that it has in the
        joined line, and at least one.
        """
        before, lines = self.subwords.before_word if of_words else "", []
        for texts in rows:
            cleaned = map(self.normalize, texts)
            lines += [before + x if place and x else x for place, x in enumerate(cleaned)]
        least = [UNK] if of_words else []
        ids = iter(self.encode_batch(lines))
        return [[next(ids) or least for _ in texts] for texts in rows]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; special tokens are left out."""
        words = [self.symbols[i] for i in ids if i < len(self.symbols)]
        return self.subwords.join([word for word in words if self.ids[word] != UNK])

    def copy_to(self, folder: str) -> None:
        """Write dict.txt, the files of the vocabulary and vocabulary.json to a folder."""
        atomic_copy(self.dictionary, os.path.join(folder, DICTIONARY))
        for name, path in zip(KINDS[self.kind][0], self.paths):
            atomic_copy(path, os.path.join(folder, name))
        write_json(os.path.join(folder, VOCABULARY), self.record)

    def __reduce__(self):
        # the libraries' objects cannot be pickled for another process
        return Tokenizer, (self.kind, self.paths, self.dictionary, self.record)


def given_tokenizer(folder: str, given: tuple[str, Sequence[str]] | None = None) -> Tokenizer:
    """The tokenizer of --vocabulary; for ``given`` see ``Tokenizer.load``."""
    if given is None and find_record([folder])[0] is None:
        raise FileNotFoundError(
            f"--vocabulary {folder} has no vocabulary; copy its files there: {VOCABULARY} and what "
            f"it names, or {_FILES}"
        )
    return Tokenizer.load(folder, given)


def find_dictionary(folders: Sequence[str]) -> str:
    """The first dict.txt in these folders, or in their input0."""
    for folder in folders:
        for name in (DICTIONARY, os.path.join("input0", DICTIONARY)):
            if os.path.isfile(os.path.join(folder, name)):
                return os.path.join(folder, name)
        if glob.glob("dict.*.txt", root_dir=folder):
            raise ValueError(f"{folder} is for translation; this takes a tupe_roberta")
    raise FileNotFoundError(
        f"{os.path.join(folders[0], DICTIONARY)} is missing; give --data, the folder that the "
        "checkpoint was trained with"
    )


def find_record(folders: Sequence[str]) -> tuple[str | None, dict[str, Any]]:
    """The first folder with a vocabulary, and its vocabulary.json, or else only the kind."""
    for folder in folders:
        path = os.path.join(folder, VOCABULARY)
        if os.path.isfile(path):
            record = read_json(path)
            if record.get("kind") not in KINDS:
                raise ValueError(
                    f"{path} names the vocabulary {record.get('kind')!r}, which is none of "
                    f"{', '.join(KINDS)}; delete it, and encode text by the programs that made the "
                    "vocabulary"
                )
            return folder, record
    for folder in folders:
        for kind, (names, _) in KINDS.items():
            if all(os.path.isfile(os.path.join(folder, name)) for name in names):
                return folder, {"kind": kind}
    return None, {}


def recorded_files(folder: str, record: dict[str, Any]) -> list[str]:
    """The files of the vocabulary that a folder records."""
    paths = [os.path.join(folder, name) for name in KINDS[record["kind"]][0]]
    for path in paths:
        if not os.path.isfile(path):
            raise FileNotFoundError(
                f"{path} is missing, but the {VOCABULARY} beside it needs it; copy it there from "
                "the folder that the model was trained with"
            )
    return paths


def copy_vocabulary(data: str, folder: str) -> None:
    """Copy the files that a checkpoint needs beside it when it is used without its data folder."""
    for name in (*VOCABULARY_FILES, *OTHER_FILES, *glob.glob("dict.*.txt", root_dir=data)):
        source, copy = os.path.join(data, name), os.path.join(folder, name)
        if os.path.isfile(source) and os.path.realpath(source) != os.path.realpath(copy):
            atomic_copy(source, copy)


def unknown_warnings(rates: Mapping[str, float]) -> list[str]:
    """A warning for each text with many unknown tokens; ``rates`` are their shares."""
    return [
        f"{rate:.1%} of the tokens of {text} are unknown; was the vocabulary made for such text?"
        for text, rate in rates.items()
        if rate > MUCH
    ]


def warn_of_unknown(logger: logging.Logger, counts: Mapping[str, int]) -> None:
    """Log such a warning; ``counts`` are numbers of tokens."""
    for line in unknown_warnings({"the text": counts["unknown"] / max(1, counts["tokens"])}):
        logger.warning("%s", line)
