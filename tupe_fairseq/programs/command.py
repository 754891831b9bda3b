"""fairseq-train: its path, and its options parsed without running it."""

import argparse
import os
import shutil
import sys
from typing import NoReturn, Sequence

from fairseq import options

from tupe_fairseq.programs.log import quiet


def fairseq_train() -> str:
    """The path of this Python's fairseq-train.

    Raises:
        FileNotFoundError: if there is none.
    """
    beside_python = os.path.join(os.path.dirname(sys.executable), "fairseq-train")
    found = beside_python if os.path.exists(beside_python) else shutil.which("fairseq-train")
    if found is None:
        raise FileNotFoundError(
            f"there is no fairseq-train next to {sys.executable}, nor on PATH; install fairseq "
            "with: pip install 'tupe_fairseq[fairseq]'"
        )
    return found


def parse_training(words: Sequence[str]) -> argparse.Namespace:
    """The options of a fairseq-train command, with the architecture's preset applied.

    Args:
        words (sequence of str): the arguments of ``fairseq-train``.
    Raises:
        ValueError: if fairseq-train would refuse them; the message is its own.
    """
    parser = options.get_training_parser()

    def refuse(message: str) -> NoReturn:
        raise ValueError(message)

    parser.error = refuse
    with quiet("fairseq"):
        return options.parse_args_and_arch(parser, list(words))
