"""What a part has measured: JSON that is written after each case, so that a stop loses nothing."""

import json
import math
import os
import platform
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Optional, Tuple

import torch

UNFINISHED = 75  # exit code: time is over, and the same command goes on


def machine(device: str, **more: Any) -> Dict[str, Any]:
    """What figures depend on; those of another machine are not gone on with."""
    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    try:
        triton = metadata.version("triton")
    except metadata.PackageNotFoundError:
        triton = "none"
    versions = {
        "python": platform.python_version(), "torch": torch.__version__, "triton": triton,
    }  # fmt: skip
    return {"device": name, **versions, "interpreted": is_interpreted(), **more}


def is_interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


class KeptResults:
    """The cases of one part, by name.

    Args:
        path (Path): the JSON file.  What is there is kept if it is of the same machine.
        about (dict): see :func:`machine`.
        seconds (float): no case is begun after so many.
    """

    def __init__(self, path: Path, about: Dict[str, Any], seconds: float = math.inf):
        self._path, self._end = path, time.monotonic() + seconds
        self._content: Dict[str, Any] = {"machine": about, "cases": {}}
        if path.exists():
            content = json.loads(path.read_text())
            if content.get("machine") == about:
                self._content = content
                print(f"{path}: going on after {len(self.cases)} cases", flush=True)
            else:
                print(f"{path} is of another machine or other settings: begun anew", flush=True)

    @property
    def cases(self) -> Dict[str, Any]:
        return self._content["cases"]

    def put(self, name: str, value: Any) -> None:
        self.cases[name] = value
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps(self._content, indent=1) + "\n")
        partial.replace(self._path)

    def run(
        self, cases: Iterable[Tuple[str, Callable[[], Any]]], say: Callable[[str, Any], None]
    ) -> None:
        """Measure those that are missing, and say all; exit for good if time is over.

        A case that ended the process is marked, and not begun again.
        """
        for name, measure in cases:
            known: Optional[Any] = self.cases.get(name)
            if known == "begun":
                known = {"failed": "it ended the process"}
                self.put(name, known)
            elif known is None:
                if time.monotonic() > self._end:
                    print(f"time is over before {name!r}: run the same command again", flush=True)
                    sys.exit(UNFINISHED)
                self.put(name, "begun")
                known = measure()
                self.put(name, known)
            say(name, known)
