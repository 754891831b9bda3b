"""All checks of what is installed, in an order in which each stands on those before it."""

from collections.abc import Iterator, Sequence

from tupe_fairseq.cli.extras import EXTRA_OF
from tupe_fairseq.doctor.devices import check_devices
from tupe_fairseq.doctor.fairseq_installation import (
    check_fairseq,
    check_omegaconf,
    official_version,
)
from tupe_fairseq.doctor.finding import ERROR, OK, Finding, run_checks
from tupe_fairseq.doctor.installed import place_of
from tupe_fairseq.doctor.plugin_registration import check_registration
from tupe_fairseq.doctor.python_and_torch import check_numpy, check_python, check_torch

# where what is imported has another name than what EXTRA_OF calls it
_IMPORTED = {"protobuf": "google.protobuf"}


def check_environment(scripts: Sequence[str]) -> Iterator[Finding]:
    """Check Python, torch, numpy, fairseq, omegaconf, the plugin, the extras and the devices.

    Args:
        scripts (sequence of str): the console scripts of this version.
    """
    failed: set[str] = set()
    checks = {
        "python": check_python,
        "torch": check_torch,
        "numpy": lambda: check_numpy(next(official_version(), None)),
        "fairseq": check_fairseq,
        "omegaconf": check_omegaconf,
        "plugin": lambda: check_registration(scripts),
        "extras": check_extras,
        "devices": check_devices,
    }
    needs = {
        "fairseq": ("torch", "numpy"),
        "omegaconf": ("torch", "numpy", "fairseq"),
        "plugin": ("torch", "numpy", "fairseq"),
        "devices": ("torch",),
    }
    for name, check in checks.items():
        broken = [need for need in needs.get(name, ()) if need in failed]
        if broken:
            failed.add(name)
            yield Finding(name, ERROR, "not checked", f"it needs {broken[0]}; mend that first")
            continue
        for finding in run_checks({name: check}):
            if finding.level == ERROR:
                failed.add(name)
            yield finding


def check_extras() -> Finding:
    """Which extras are not complete; what they are for is optional, so that is no warning."""
    absent: dict[str, list[str]] = {}
    for package, extra in EXTRA_OF.items():
        if extra != "fairseq" and _is_absent(package):
            absent.setdefault(extra, []).append(package)
    found = ", ".join(f"{extra} (no {', '.join(names)})" for extra, names in absent.items())
    return Finding("extras", OK, f"not installed: {found}" if found else "all are installed")


def _is_absent(package: str) -> bool:
    try:
        return place_of(_IMPORTED.get(package, package)) is None
    except ModuleNotFoundError:  # of the package that it is in
        return True
