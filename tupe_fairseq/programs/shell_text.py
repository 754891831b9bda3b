"""Commands as text to copy; no part of fairseq is needed to print them."""

import os
import shlex
import sys

from tqdm import tqdm

_COLUMNS = 96


def user_dir() -> str:
    """The value of --user-dir: the folder of this package."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def as_shell(words: list[str]) -> str:
    """The command as text for a shell, with one flag and its value per line."""
    groups: list[str] = []
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
