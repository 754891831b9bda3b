"""The vocabulary whose files the flags give, and its checks."""

import argparse
import os
from typing import Dict, List, Optional, Tuple

from tupe_fairseq.command_flags.vocabulary_flags import CHOICES, FLAGS_OF_KIND
from tupe_fairseq.text.foreign_vocabulary import KINDS


def given_vocabulary(args: argparse.Namespace) -> Optional[Tuple[str, Dict[str, str]]]:
    """The kind that was given, and the path of each of its files by the name that it gets in OUT.

    Raises:
        OSError: if a file is missing.
        ValueError: if only a part of a kind is given, or more than one kind.
    """
    given = {
        kind: [name for name in names if getattr(args, name)]
        for kind, names in FLAGS_OF_KIND.items()
    }
    kinds = [kind for kind, names in given.items() if names]
    if not kinds:
        return None
    if len(kinds) > 1 or len(given[kinds[0]]) < len(FLAGS_OF_KIND[kinds[0]]):
        flags = [_flag(name) for names in given.values() for name in names]
        raise ValueError(f"{', '.join(flags)}: give the files of one kind, {CHOICES}")
    (kind,) = kinds
    paths = [getattr(args, name) for name in FLAGS_OF_KIND[kind]]
    for name, path in zip(FLAGS_OF_KIND[kind], paths):
        check_is_file(_flag(name), path)
    return kind, dict(zip(KINDS[kind].files, paths))


def check_fits(kind: str, paths: Dict[str, str], words: List[str], is_authors: bool) -> None:
    """Refuse a vocabulary that the checkpoint was not trained with.

    Args:
        kind (str): the kind.
        paths (dict): its files.
        words (list of str): of the checkpoint's dict.txt, as it was given.
        is_authors (bool): whether the checkpoint is the TUPE authors'.
    Raises:
        OSError, ValueError: if a file cannot be read, is not of the kind, or does not fit.
    """
    if kind == "fastbpe" and not is_authors:
        raise ValueError(
            "--bpe-codes is for checkpoints of the TUPE authors' code, whose text was "
            f"{KINDS[kind].text}; what is done to text before another model's codes is not known"
        )
    KINDS[kind].check(*paths.values(), words)


def check_is_file(flag: str, path: str) -> None:
    """Refuse what is not there or is no plain file.

    Raises:
        OSError: with a sentence that names the flag.
    """
    if not os.path.isfile(path):
        reason = "is not a file" if os.path.exists(path) else "does not exist"
        raise FileNotFoundError(f"{flag} {path} {reason}")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
