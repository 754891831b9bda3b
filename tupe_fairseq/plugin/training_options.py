"""Reading a fairseq-train command without running it."""

import argparse
from typing import List, NoReturn, Sequence

import fairseq
from fairseq import options
from fairseq.models import ARCH_MODEL_INV_REGISTRY


def fairseq_version() -> str:
    """The version that fairseq itself tells."""
    return fairseq.__version__


def architectures() -> List[str]:
    """What --arch may be for tupe_roberta."""
    return list(ARCH_MODEL_INV_REGISTRY["tupe_roberta"])


def parse_training(words: Sequence[str]) -> argparse.Namespace:
    """The options of a fairseq-train command, the architecture's preset applied.

    Args:
        words (sequence of str): what follows ``fairseq-train``.
    Raises:
        ValueError: if fairseq-train would not take them; the message is its own.
    """
    parser = options.get_training_parser()

    def refuse(message: str) -> NoReturn:
        raise ValueError(message)

    parser.error = refuse
    return options.parse_args_and_arch(parser, list(words))
