"""The lines that are supported: a Python, and what brings fairseq there."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Dict, Iterator, NamedTuple, Optional


class Line(NamedTuple):
    """One line.

    Args:
        python (str): the version of Python.
        fairseq (str): the extra of pyproject.toml that brings fairseq; empty for the core alone.
    """

    python: str
    fairseq: str

    @property
    def variable(self) -> str:
        """The variable that names an interpreter."""
        return "PYTHON" + self.python.replace(".", "")

    def interpreter(self) -> Optional[str]:
        """The first interpreter of this version that runs and has venv; None if there is none."""
        for path in self._candidates():
            if _is_usable(path, self.python):
                return path
        return None

    def _candidates(self) -> Iterator[str]:
        if os.environ.get(self.variable):  # which was asked for, and is not passed over
            yield os.environ[self.variable]
            return
        found = shutil.which(f"python{self.python}")
        if found:
            yield found
        pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
        yield from map(str, sorted(pyenv.glob(f"versions/{self.python}.*/bin/python")))


LINES: Dict[str, Line] = {
    "official-3.8": Line("3.8", "fairseq"),
    "main-3.11": Line("3.11", "fairseq"),
    "main-3.12": Line("3.12", "fairseq"),
    "fixed-3.12": Line("3.12", "fairseq-fixed"),
    "core-3.13": Line("3.13", ""),
}


def _is_usable(path: str, version: str) -> bool:
    """Whether it runs (a shim of pyenv may not), has venv, and is of the version."""
    program = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    try:
        asked = subprocess.run([path, "-c", program], capture_output=True, text=True)
    except OSError:
        return False
    return asked.stdout.strip() == version
