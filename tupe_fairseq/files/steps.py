"""Records the finished steps of a long command, so that a second run resumes there."""

import os
from typing import Any, Dict, Optional

from tupe_fairseq.files.atomic import read_json, write_json


class Steps:
    """The finished steps of a command, remembered in ``FOLDER/steps.json``.

    A step counts as finished after :meth:`finish`, which the caller calls when all its
    files are complete.

    Args:
        folder (str): the command's output folder; made if missing.
        settings (dict): everything that the outputs depend on; JSON values.
    Raises:
        ValueError: if the folder holds the steps of a run with other settings; the message names
            the first difference.
        ValueError: if the folder holds anything else.
    """

    def __init__(self, folder: str, settings: Dict[str, Any]):
        self.path = os.path.join(folder, "steps.json")
        if os.path.exists(self.path):
            known = read_json(self.path)
            if not isinstance(known, dict) or set(known) != {"settings", "finished"}:
                raise ValueError(
                    f"{self.path} was not written by this command; give another folder"
                )
            self._refuse_other_settings(folder, known["settings"], settings)
            self._finished = known["finished"]
        else:
            # all that is left if the first write was interrupted
            partial = {"steps.json.partial"}
            if os.path.isdir(folder) and set(os.listdir(folder)) - partial:
                raise ValueError(f"{folder} contains other files; give an empty or a new folder")
            self._finished = {}
        self._settings = settings

    @staticmethod
    def _refuse_other_settings(folder, before, now) -> None:
        for key in [*now, *(key for key in before if key not in now)]:
            if before.get(key) != now.get(key):
                raise ValueError(
                    f"{folder} was made with other settings: {key} was {before.get(key)!r} "
                    f"and is now {now.get(key)!r}; give another folder, or delete this one"
                )

    def result(self, name: str) -> Optional[Any]:
        """What :meth:`finish` was given for this step, None if it is not finished."""
        return self._finished.get(name)

    def finish(self, name: str, result: Any) -> None:
        """Record that a step is finished.

        Args:
            name (str): the step.
            result (JSON value, not None): what later steps and the report need from it.
        """
        self._finished[name] = result
        write_json(self.path, {"settings": self._settings, "finished": self._finished})


def keep_settings(folder: str, settings: Dict[str, Any]) -> None:
    """Record the settings of a folder whose parts record themselves whether they are finished.

    Raises:
        ValueError: as :class:`Steps`, if the folder has other settings or holds anything else.
    """
    Steps(folder, settings).finish("settings", True)
