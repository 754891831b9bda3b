"""What a data folder holds, for pre-training or for fine-tuning; read in little memory."""

import os
from typing import NamedTuple

import numpy as np

from tupe_fairseq.files.atomic import read_json
from tupe_fairseq.files.names import DICTIONARY, REPORT
from tupe_fairseq.text.mmap_index import count, sampled_tokens, sentence_lengths

# of each file of tokens
_SAMPLE = 1_000_000
_INPUTS = ("input0", "input1")


class Split(NamedTuple):
    """A part of the data.

    Args:
        name (str): such as ``train``.
        prefixes (list of str): its files without their ends, one for each text of a row.
        rows (int): how many.
    """

    name: str
    prefixes: list[str]
    rows: int


class DataFacts(NamedTuple):
    """What is compared with a checkpoint and a vocabulary.

    Args:
        folder (str): the folder.
        dictionary (str): its dict.txt.
        splits (list of Split): its parts; none if only the dictionary is there.
        texts (int): how many a row has: 0 for pre-training, where lines follow one another.
        classes (int): those of label/dict.txt; 0 without one.
        tokens_per_sample (int): the longest sample that it was made for; 0 if nothing says.
    """

    folder: str
    dictionary: str
    splits: list[Split]
    texts: int
    classes: int
    tokens_per_sample: int

    def lengths(self, split: Split) -> np.ndarray:
        """The tokens of each row as a model gets it, ``<s>`` and all ``</s>`` included."""
        # of a pair: <s> first </s> </s> second </s>, where each file has the </s> of its own
        parts = [sentence_lengths(prefix) for prefix in split.prefixes]
        return sum(part.astype(np.int64) for part in parts) + len(parts)

    def sample(self, split: Split) -> np.ndarray:
        """Some of the ids of a part."""
        return np.concatenate([sampled_tokens(prefix, _SAMPLE) for prefix in split.prefixes])


def read_data_facts(folder: str) -> DataFacts:
    """Look through a folder that fairseq-preprocess or a tupe-prepare-... command has made.

    Raises:
        OSError: if it has no dictionary, or a file cannot be read.
        ValueError: if a file of tokens is damaged, or the texts of a part differ in number.
    """
    is_task = os.path.isdir(os.path.join(folder, _INPUTS[0]))
    sides = [folder]
    if is_task:
        sides = [os.path.join(folder, name) for name in _INPUTS]
        sides = [side for side in sides if os.path.isdir(side)]
    dictionary = os.path.join(sides[0], DICTIONARY)
    if not os.path.isfile(dictionary):
        raise FileNotFoundError(f"{dictionary} is missing")
    return DataFacts(
        folder, dictionary, _splits(sides), len(sides) if is_task else 0, _classes(folder),
        _tokens_per_sample(folder),
    )  # fmt: skip


def _splits(sides: list[str]) -> list[Split]:
    names = sorted(name[:-4] for name in os.listdir(sides[0]) if name.endswith(".idx"))
    found = []
    for name in names:
        prefixes = [os.path.join(side, name) for side in sides]
        rows: dict[str, int] = {prefix: count(prefix)[0] for prefix in prefixes}
        if len(set(rows.values())) > 1:
            told = " and ".join(f"{prefix} has {number} rows" for prefix, number in rows.items())
            raise ValueError(f"{told}; they must have equally many")
        found.append(Split(name, prefixes, rows[prefixes[0]]))
    return found


def _classes(folder: str) -> int:
    path = os.path.join(folder, "label", DICTIONARY)
    if not os.path.isfile(path):
        return 0
    with open(path, "rb") as file:
        return sum(1 for line in file if line.strip() and not line.startswith(b"madeupword"))


def _tokens_per_sample(folder: str) -> int:
    path = os.path.join(folder, REPORT)
    content = read_json(path) if os.path.isfile(path) else None
    settings = content.get("settings") if isinstance(content, dict) else None
    value = settings.get("tokens_per_sample") if isinstance(settings, dict) else None
    return value if type(value) is int else 0
