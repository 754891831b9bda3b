"""Records the finished steps of a long command, so that a second run resumes there."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tupe_fairseq.files.atomic import read_json, write_json
from tupe_fairseq.files.fingerprint import is_fingerprint
from tupe_fairseq.files.record import check_record

_NAME = "steps.json"


class Steps:
    """The finished steps of a command, remembered in ``FOLDER/steps.json``.

    A step counts as finished after :meth:`finish`, which the caller calls when all its
    files are complete.

    Args:
        folder (str): the command's output folder; made if missing.
        settings (dict): everything that the outputs depend on; JSON values.
        used_by (dict): setting to the steps that first depend on it; until one of them is finished,
            it may change.  "clean" stands for "clean train 0", too.  Settings that are not listed
            never may.
        since (sequence of str): names of settings that earlier versions did not record; a folder
            without them is taken up, and has them from the next :meth:`finish` on.
    Raises:
        ValueError: if the folder holds the steps of a run with other settings; the message names
            the first difference.
        ValueError: if the folder holds anything else.
    """

    def __init__(
        self,
        folder: str,
        settings: dict[str, Any],
        used_by: Mapping[str, Sequence[str]] | None = None,
        since: Sequence[str] = (),
    ):
        self.path = os.path.join(folder, _NAME)
        self._settings = settings
        self._finished: dict[str, Any] = {}
        if os.path.exists(self.path):
            known = _read(self.path)
            before = {**{name: settings[name] for name in since}, **known["settings"]}
            self._finished = known["finished"]
            self._refuse_other_settings(folder, before, used_by or {})
        else:
            # all that is left if the first write was interrupted
            partial = {f"{_NAME}.partial"}
            if os.path.isdir(folder) and set(os.listdir(folder)) - partial:
                raise ValueError(f"{folder} contains other files; give an empty or a new folder")

    def _refuse_other_settings(self, folder, before, used_by) -> None:
        now = self._settings
        for key in [*now, *(key for key in before if key not in now)]:
            if before.get(key) == now.get(key):
                continue
            if key in used_by and not any(map(self._is_finished, used_by[key])):
                continue
            raise ValueError(
                f"{folder} was made with other settings: "
                f"{_difference(key, before.get(key), now.get(key))}; "
                "give another folder, or delete this one"
            )

    def _is_finished(self, step: str) -> bool:
        return any(name == step or name.startswith(f"{step} ") for name in self._finished)

    def result(self, name: str, shape: Any = object) -> Any | None:
        """What :meth:`finish` was given for this step, None if it is not finished.

        Args:
            name (str): the step.
            shape: what it was given, as for :func:`read_record`; default: anything.
        Raises:
            ValueError: if the file has something else.
        """
        value = self._finished.get(name)
        if value is not None:
            check_record(value, shape, self.path, name)
        return value

    def finish(self, name: str, result: Any) -> None:
        """Record that a step is finished.

        Args:
            name (str): the step.
            result (JSON value, not None): what later steps and the report need from it.
        """
        self._finished[name] = result
        self._write()

    def forget(self, step: str) -> None:
        """Record that a step, and those of which it is the first word, must be done again."""
        for name in list(filter(lambda name: name.split(" ")[0] == step, self._finished)):
            del self._finished[name]
        self._write()

    def _write(self) -> None:
        write_json(self.path, {"settings": self._settings, "finished": self._finished})


def recorded_settings(folder: str) -> dict[str, Any]:
    """The settings that a folder was made with; empty if it has no record.

    Raises:
        ValueError: if its record was not written by :class:`Steps`.
    """
    path = os.path.join(folder, _NAME)
    return _read(path)["settings"] if os.path.exists(path) else {}


def _read(path: str) -> dict[str, Any]:
    known = read_json(path)
    if not isinstance(known, dict) or set(known) != {"settings", "finished"}:
        raise ValueError(f"{path} was not written by this command; give another folder")
    check_record(known, {"settings": dict, "finished": dict}, path)
    return known


def _difference(key: str, before: Any, now: Any) -> str:
    if is_fingerprint(before) and is_fingerprint(now):
        if before[0] == now[0]:
            return f"{now[0]} has changed since"
        before, now = before[0], now[0]
    return f"{key} was {before!r} and is now {now!r}"


def keep_settings(folder: str, settings: dict[str, Any], since: Sequence[str] = ()) -> None:
    """Record the settings of a folder whose parts record themselves whether they are finished.

    Raises:
        ValueError: as :class:`Steps`, if the folder has other settings or holds anything else.
    """
    Steps(folder, settings, since=since).finish("settings", True)
