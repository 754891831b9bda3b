"""The small files that a checkpoint needs beside it, to be used without its data folder."""

import glob
import os

from tupe_fairseq.files.atomic import atomic_copy

#: dictionaries, the files of a vocabulary of any kind, and how text was prepared
NAMES = (
    "dict.txt",
    "input0/dict.txt",
    "label/dict.txt",
    "report.json",
    "sentencepiece.bpe.model",
    "vocabulary.json",
    "bpecodes",
    "code",
    "encoder.json",
    "vocab.bpe",
    "vocab.json",
    "merges.txt",
)


def copy_vocabulary(data: str, folder: str) -> None:
    """Copy those of a data folder."""
    of_languages = glob.glob("dict.*.txt", root_dir=data)
    for name in (*NAMES, *of_languages):
        source, copy = os.path.join(data, name), os.path.join(folder, name)
        if os.path.isfile(source) and os.path.realpath(source) != os.path.realpath(copy):
            atomic_copy(source, copy)


def remove_vocabulary(folder: str) -> None:
    """Remove them, if they are there."""
    for name in NAMES:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            os.remove(path)
            if os.path.dirname(path) != folder and not os.listdir(os.path.dirname(path)):
                os.rmdir(os.path.dirname(path))
