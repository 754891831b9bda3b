"""The small files that a fine-tuned checkpoint needs beside it, to be used without its data."""

import os

from tupe_fairseq.files.atomic import atomic_copy
from tupe_fairseq.files.names import DICTIONARY, REPORT, VOCABULARY
from tupe_fairseq.text.foreign_vocabulary import KINDS

#: dictionaries, the files of a vocabulary of any kind, and how text was treated
NAMES = (
    DICTIONARY,
    f"input0/{DICTIONARY}",
    f"label/{DICTIONARY}",
    VOCABULARY,
    *(name for kind in KINDS.values() for name in kind.files),
    REPORT,
)


def copy_beside(data: str, folder: str) -> None:
    """Copy what there is of them from a task's data folder, unless it is there already."""
    for name in NAMES:
        source, target = os.path.join(data, name), os.path.join(folder, name)
        if os.path.isfile(source) and not os.path.exists(target):
            atomic_copy(source, target)


def remove_beside(folder: str) -> None:
    """Remove them, if they are there."""
    for name in NAMES:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            os.remove(path)
            if os.path.dirname(path) != folder and not os.listdir(os.path.dirname(path)):
                os.rmdir(os.path.dirname(path))
