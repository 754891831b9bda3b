"""The console scripts of this Python."""

import os
import shutil
import sys


def console_script(name: str) -> str:
    """The path of one.

    Raises:
        FileNotFoundError: if there is none of this name.
    """
    beside_python = os.path.join(os.path.dirname(sys.executable), name)
    found = beside_python if os.path.exists(beside_python) else shutil.which(name)
    if found is None:
        raise FileNotFoundError(
            f"there is no {name} next to {sys.executable}, nor on PATH; install fairseq and this "
            "package with: pip install 'tupe_fairseq[fairseq]'"
        )
    return found


def fairseq_train() -> str:
    """The path of fairseq-train.

    Raises:
        FileNotFoundError: if there is none.
    """
    return console_script("fairseq-train")
