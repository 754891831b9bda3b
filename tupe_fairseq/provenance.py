"""Which software and which machine made a file of results."""

import contextlib
import functools
import logging
import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tupe_fairseq.version import __version__


def made_by(device: Any = "cpu") -> dict[str, Any]:
    """``versions`` and ``machine`` for a file of results; ``device`` is torch's."""
    machine = f"{_processor()}, {cores()} cores"
    if not str(device).startswith("cpu"):
        import torch

        machine += f"; {torch.cuda.get_device_name(device)}"
    return {"versions": dict(versions()), "machine": machine}


@functools.cache
def versions() -> dict[str, str]:
    """The versions of the package, of fairseq (by the name of its build), torch and Python."""
    found = []
    for build in ("fairseq", "ve-fairseq", "fairseq-fixed"):
        with contextlib.suppress(PackageNotFoundError):
            found.append(version(build))
    return {
        "tupe_fairseq": __version__,
        "fairseq": ", ".join(found) or "unknown",
        "torch": version("torch"),
        "python": platform.python_version(),
    }


def warn_of_other_version(logger: logging.Logger, folder: str, report: dict[str, Any]) -> None:
    """Warn of a finished folder of data that this version may make otherwise."""
    before = report.get("versions", {}).get("tupe_fairseq")
    if before != __version__:
        maker = f"version {before}, not {__version__}" if before else "an earlier version"
        text = "WARNING: %s was made by %s, which may clean text otherwise; delete it to repeat it"
        logger.warning(text, folder, maker)


@functools.cache
def _processor() -> str:
    match = None
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            match = re.search(r"^model name\s*: (.*)", file.read(), re.MULTILINE)
    return match[1] if match else "CPU"


def cores() -> int:
    """The CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
