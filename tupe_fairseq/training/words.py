"""A fairseq-train command as words, and as text to copy."""

import os
import shlex
import shutil
import sys
from typing import List

_COLUMNS = 96


def fairseq_train() -> str:
    """The fairseq-train of this Python.

    Raises:
        FileNotFoundError: if there is none.
    """
    beside = os.path.join(os.path.dirname(sys.executable), "fairseq-train")
    found = beside if os.path.exists(beside) else shutil.which("fairseq-train")
    if found is None:
        raise FileNotFoundError(
            f"there is no fairseq-train beside {sys.executable}, nor on PATH; install fairseq "
            "with: pip install 'tupe_fairseq[fairseq]'"
        )
    return found


def as_shell(words: List[str]) -> str:
    """The command as text for a shell, several lines, with a flag and its value on one line."""
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
