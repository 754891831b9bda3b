"""A run of a study: a training in a folder of its own."""

import os
from collections.abc import Callable
from typing import Any

from tupe_fairseq.files import atomic_write, read_json, write_json
from tupe_fairseq.runs.process import as_script, train


class Run:
    """A run: command.sh, train.log and, when it is finished, result.json.

    Each kind of study says where it is, what it is called, its command, and its CPU threads.
    """

    folder: str
    title: str
    threads: int

    def command(self) -> list[str]:
        """The program and its arguments."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.title

    def path(self, *names: str) -> str:
        """A file in the run's folder, or the folder itself."""
        return os.path.join(self.folder, *names)

    def script(self) -> str:
        """The command as a shell script, to be run by hand."""
        return as_script(self.title, self.threads, self.command())

    def train(self, on_line: Callable[[str], None], **options: Any) -> None:
        """Train, or resume an interrupted training; as :func:`tupe_fairseq.runs.process.train`."""
        os.makedirs(self.folder, exist_ok=True)
        with atomic_write(self.path("command.sh")) as file:
            file.write(self.script())
        train(self.command(), self.path("train.log"), on_line, **options)

    def result(self) -> dict[str, Any] | None:
        """The content of result.json; None before the run is finished."""
        path = self.path("result.json")
        return read_json(path) if os.path.exists(path) else None

    def save(self, result: dict[str, Any]) -> None:
        """Write result.json."""
        write_json(self.path("result.json"), result)
