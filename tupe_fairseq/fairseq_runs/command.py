"""The commands that we start: where they are, as text to copy, and parsed."""

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import NoReturn

from tqdm import tqdm

from tupe_fairseq.fairseq_runs.train import quiet

_COLUMNS = 96


def console_script(name: str) -> str:
    """The path of a console script: beside this Python, else on PATH."""
    next_to_python = os.path.join(os.path.dirname(sys.executable), name)
    path = next_to_python if os.path.exists(next_to_python) else shutil.which(name)
    if path is None:
        raise FileNotFoundError(
            f"there is no {name} next to {sys.executable}, nor on PATH; install fairseq and this "
            "package with: pip install 'tupe_fairseq[fairseq]'"
        )
    return path


def fairseq_train() -> str:
    """The path of fairseq-train."""
    return console_script("fairseq-train")


def user_dir() -> str:
    """The value of --user-dir: the folder of this package."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def as_shell(words: Sequence[str]) -> str:
    """The command as text for a shell, each flag on one line with its value."""
    groups: list[str] = []
    for word in words:
        if word.startswith("--") or not groups:
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


def as_script(title: str, threads: int, words: Sequence[str]) -> str:
    """A shell script that makes a run by hand."""
    return f"# {title}\nexport OMP_NUM_THREADS={threads}\n{as_shell(words)}\n"


def show(script: str) -> None:
    """Print a command to standard output, without disturbing a progress bar."""
    tqdm.write(script, file=sys.stdout)
    sys.stdout.flush()


def parse_training(words: Sequence[str]) -> argparse.Namespace:
    """The options of fairseq-train for these arguments, with the architecture's preset applied.

    A ValueError if fairseq-train would refuse them, with its own message.
    """
    from fairseq import options

    parser = options.get_training_parser()

    def refuse(message: str) -> NoReturn:
        raise ValueError(message)

    parser.error = refuse
    with quiet("fairseq"):
        return options.parse_args_and_arch(parser, list(words))
