"""Versions, processor and cores, recorded with a comparison."""

import os
import platform

import torch

from tupe_fairseq.version import __version__


def versions() -> dict[str, str]:
    """The versions of the software on which the numbers depend."""
    import fairseq  # the processor's name is for those without it, too

    return {
        "tupe_fairseq": __version__,
        "fairseq": fairseq.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def cores() -> int:
    """The CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """The processor's name and the number of its cores that may be used."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    name = line.partition(":")[2].strip()
                    break
    except OSError:  # not on Linux
        pass
    return f"{name}, {cores()} cores"
