"""The options of fairseq-train, parsed without running it."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

from fairseq import options

from tupe_fairseq.programs.log import quiet


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
