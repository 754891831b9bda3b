"""Runs the processes of one training, and watches them."""

import os
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Dict, Iterator, List

from one_training import REPO

_LONGEST = 600  # seconds


def environment(programs: Path) -> Dict[str, str]:
    """One thread, this copy of the package, and the programs for shells, too."""
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    ours = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPO), "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **ours, "PATH": path}


class Launched:
    """Running commands, each with a log of its own.

    Args:
        commands (list): their words.
        programs (Path): the folder of the programs.
        log (Path): the start of the names of the logs.
    """

    def __init__(self, commands: List[List[str]], programs: Path, log: Path):
        self.logs = [Path(f"{log}-{number}.log") for number in range(len(commands))]
        self.processes: List[subprocess.Popen] = []
        self.begun = time.monotonic()
        for words, path in zip(commands, self.logs):
            with open(path, "w") as output:
                self.processes.append(
                    subprocess.Popen(
                        [str(programs / words[0]), *words[1:]], stdout=output,
                        stderr=subprocess.STDOUT, env=environment(programs), start_new_session=True,
                    )
                )  # fmt: skip

    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.begun

    def said(self) -> str:
        """What all have printed."""
        return "\n".join(log.read_text(errors="replace") for log in self.logs)

    def wait(self, seconds: float = _LONGEST) -> List[int]:
        """The exit codes, when all have ended.

        Raises:
            TimeoutError: if they do not end.
        """
        end = time.monotonic() + seconds
        self.until(lambda: all(p.poll() is not None for p in self.processes), end, "the end")
        return [process.returncode for process in self.processes]

    def until(self, is_so: Callable[[], bool], end: float, what: str) -> None:
        """Wait for something.

        Raises:
            TimeoutError: if it does not happen until ``end``.
        """
        while not is_so():
            if time.monotonic() > end:
                raise TimeoutError(f"waited for {what} in vain; see {self.logs[0]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End all that still runs."""
        for process in self.processes:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()


@contextmanager
def launched(commands: List[List[str]], programs: Path, log: Path) -> Iterator[Launched]:
    """As :class:`Launched`; none is left behind."""
    running = Launched(commands, programs, log)
    try:
        yield running
    finally:
        running.kill()
