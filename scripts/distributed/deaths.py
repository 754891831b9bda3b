"""A worker that is killed: the others end with a message, and the same command goes on."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List

from launching import Launched
from ways import by_hand, by_torchrun

#: seconds until the others have ended
LIMIT = 60
_LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
_WAITED = ("Timeout (0:00:45",)
_AGENT = ("Signal 9 (SIGKILL)",)


@dataclass(frozen=True)
class Death:
    """A worker that is killed.

    Args:
        commands (callable): as of a :class:`ways.Way`.
        rank (int): of the worker.
        is_early (bool): before the workers have met; otherwise after the twelfth update.
        words (tuple of str): one of them must be said by those that are left.
        like (str): the way whose result it must have in the end, bit by bit.
    """

    commands: Callable[[Path, Path], List[List[str]]]
    rank: int
    is_early: bool
    words: tuple
    like: str

    def strike(self, running: Launched, save_dir: Path) -> None:
        """Wait for the moment, and kill.

        Raises:
            TimeoutError: if it does not come.
        """
        written, end = Path(f"{save_dir}-pid-{self.rank}"), time.monotonic() + 300
        if self.commands is _HAND:
            process = running.processes[self.rank].pid
        else:
            is_there = lambda: written.exists() and written.read_text().strip()  # noqa: E731
            running.until(is_there, end, str(written))
            process = int(written.read_text())
            written.unlink()
        if not self.is_early:
            running.until(lambda: '"num_updates": "12"' in running.said(), end, "update 12")
        os.kill(process, signal.SIGKILL)
        if self.words is _WAITED:  # the other one must have started
            running.until(lambda: "waits for the others" in running.said(), end, "the other one")


_HAND, _TORCHRUN, _MACHINES = by_hand(2), by_torchrun(2), by_torchrun(1, machines=2)

DEATHS: Dict[str, Death] = {
    "dies-hand-0": Death(_HAND, 0, False, _LOST, "hand-2"),
    "dies-hand-1": Death(_HAND, 1, False, _LOST, "hand-2"),
    "dies-torchrun": Death(_TORCHRUN, 1, False, _AGENT, "torchrun-2"),
    "dies-machines": Death(_MACHINES, 1, False, _LOST, "torchrun-2"),
    "early-hand-0": Death(_HAND, 0, True, _WAITED, "hand-2"),
    "early-hand-1": Death(_HAND, 1, True, _WAITED, "hand-2"),
    "early-torchrun": Death(_TORCHRUN, 1, True, _AGENT, "torchrun-2"),
    "early-machines": Death(_MACHINES, 1, True, _WAITED, "torchrun-2"),
}
