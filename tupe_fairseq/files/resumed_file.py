"""A file that grows by parts, and is gone on with after the last whole part."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

from tupe_fairseq.files.fingerprint import fingerprint
from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.steps import Steps, recorded_settings

_CONTENT = "content"
_RECORD = {"parts": int, "bytes": int, "told": dict}


class ResumedFile:
    """The parts of a file that are written; :func:`resumed_file` makes one.

    Args:
        steps (Steps): says how many parts are whole.
        file: open for reading and writing bytes, and after the last whole part.
        record (dict): of the last whole part.

    Attributes:
        parts (int): how many are written.
        told (dict): what :meth:`add` was told with the last one; empty before the first.
        recorded (str): the file that says so.
    """

    def __init__(self, steps: Steps, file: Any, record: dict[str, Any]):
        self._steps = steps
        self.recorded = steps.path
        self._file = file
        self.parts: int = record["parts"]
        self.told: dict[str, Any] = record["told"]

    def add(self, content: bytes, told: dict[str, Any]) -> None:
        """Write a part, and record that it is whole.

        Args:
            content (bytes): what it adds to the file.
            told (dict): what a second run needs to know; JSON values.
        """
        self._file.write(content)
        self._file.flush()
        os.fsync(self._file.fileno())
        self.parts += 1
        self.told = told
        record = {"parts": self.parts, "bytes": self._file.tell(), "told": told}
        self._steps.finish("parts", record)


@contextlib.contextmanager
def resumed_file(path: str, settings: dict[str, Any]) -> Iterator[ResumedFile]:
    """Yields what adds parts to a file, which gets its name when the block succeeds.

    Until then they are in the folder PATH.parts, which stays if the block fails after a part.

    Args:
        path (str): the file; its folder is made if missing.
        settings (dict): everything that the parts depend on; JSON values.
    Raises:
        OSError: as writing and renaming.
        ValueError: if PATH.parts was made with other settings, or not by this; or if another
            process is using it.
    """
    folder = f"{path}.parts"
    os.makedirs(folder, exist_ok=True)
    content = os.path.join(folder, _CONTENT)
    with locked(folder):
        steps = Steps(folder, settings)
        record = steps.result("parts", _RECORD)
        if record is None or not _has(content, record["bytes"]):
            record = {"parts": 0, "bytes": 0, "told": {}}
            steps.finish("parts", record)
            open(content, "wb").close()
        growing = None
        try:
            with open(content, "r+b") as file:
                file.truncate(record["bytes"])
                file.seek(record["bytes"])
                growing = ResumedFile(steps, file, record)
                yield growing
                file.flush()
                os.fsync(file.fileno())
            os.replace(content, path)
        except BaseException:
            if growing is not None and not growing.parts:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder)


def known_fingerprint(path: str, name: str, source: str) -> Any:
    """The fingerprint of a file among the settings of PATH.parts.

    Args:
        path (str): the file that grows.
        name (str): the setting.
        source (str): the file that is to be recognized; not read if it clearly is the same.
    """
    return fingerprint(source, recorded_settings(f"{path}.parts").get(name))


def _has(path: str, size: int) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) >= size
