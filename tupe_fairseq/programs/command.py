"""fairseq-train commands: composed, printed for copying, and parsed without running them."""

import argparse
import os
import shlex
import shutil
import sys
from typing import List, NoReturn, Sequence

from fairseq import options
from tqdm import tqdm

from tupe_fairseq.programs.log import quiet

_COLUMNS = 96


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


def user_dir() -> str:
    """The value of --user-dir: the folder of this package."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


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


def as_shell(words: List[str]) -> str:
    """The command as text for a shell, with one flag and its value per line."""
    groups: List[str] = []
    for word in words:
        if word.startswith("--") or len(groups) == 0:
            groups.append(shlex.quote(word))
        else:
            groups[-1] += " " + shlex.quote(word)
    lines = [groups[0]]
    for group in groups[1:]:
        if len(lines) > 1 and len(lines[-1]) + len(group) < _COLUMNS:
            lines[-1] += " " + group
        else:
            lines.append("    " + group)
    return " \\\n".join(lines)


def show(script: str) -> None:
    """Print the text of a command to standard output, without disturbing a progress bar."""
    tqdm.write(script, file=sys.stdout)
    sys.stdout.flush()
