"""Console scripts that start at once, as forks of a process that has imported torch and fairseq."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def programs_for(quick: bool, out: Path) -> Iterator[Path]:
    """The folder of python and of the console scripts.

    Args:
        quick (bool): forks, as in the tests; otherwise the real ones.
        out (Path): a folder for what forks need.
    """
    folder = Path(sys.executable).parent
    if not quick:
        yield folder
        return
    sys.path.append(str(REPO / "tests"))
    from helpers import shims

    out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with _silent():  # what it says of killed programs
            forks = stack.enter_context(shims.serving(out, folder))
        yield forks


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Let a process that is started here write its errors to nowhere."""
    ours, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        os.close(nowhere)
