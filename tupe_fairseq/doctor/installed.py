"""What is installed, read from the records of pip; nothing is imported."""

import importlib.metadata
import importlib.util
import os
import re
from typing import NamedTuple


class Distribution(NamedTuple):
    """What ``pip install`` has installed under one name."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def version_of(name: str) -> str | None:
    """The version of a distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def distributions_of(package: str) -> list[Distribution]:
    """The distributions that bring a package, each once, in order of their names.

    Args:
        package (str): the name under which it is imported.
    """
    found: dict[str, Distribution] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name and _brings(distribution, package):
            # the first on the path is the one that counts
            found.setdefault(_normal(name), Distribution(name, distribution.version))
    return [found[name] for name in sorted(found)]


def scripts_of(distribution: str) -> tuple[str, ...]:
    """The console scripts that a distribution has installed; none if it is not installed."""
    try:
        points = importlib.metadata.distribution(distribution).entry_points
    except importlib.metadata.PackageNotFoundError:
        return ()
    return tuple(point.name for point in points if point.group == "console_scripts")


def place_of(package: str) -> str | None:
    """The folder that a package would be imported from; None if there is none."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        return None
    places = spec.submodule_search_locations or [spec.origin or ""]
    return os.path.normpath(next(iter(places), ""))


def release(version: str) -> tuple[int, int]:
    """The first two numbers of a version, by which releases are compared."""
    numbers = [int(number) for number in re.findall(r"\d+", version.split("+")[0])]
    major, minor = (numbers + [0, 0])[:2]
    return major, minor


def _brings(distribution: importlib.metadata.Distribution, package: str) -> bool:
    tops = distribution.read_text("top_level.txt")
    if tops is not None:
        return package in tops.split()
    return any(file.parts[:1] == (package,) for file in distribution.files or ())


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
