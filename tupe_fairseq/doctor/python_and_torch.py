"""Checks of Python, torch and numpy."""

import platform
import sys

from tupe_fairseq.cli.extras import FIRST_WITHOUT_FAIRSEQ
from tupe_fairseq.doctor.finding import ERROR, OK, WARNING, Finding, brief
from tupe_fairseq.doctor.installed import release, version_of

_FIRST_PYTHON = (3, 10)
_FIRST_TORCH = (2, 10)
#: from here on there is fairseq's main branch, and the official 0.12.2 cannot be imported
FIRST_OF_MAIN = (3, 11)
#: the versions that were tested, as in scripts/constraints.txt: below Python 3.11, and from there
TESTED_TORCH = ("2.10.0", "2.13.0")
# of the official fairseq, which uses names that later ones do not have
_NUMPY_OF_OFFICIAL = (1, 24)


def tested_torch(python: tuple[int, ...]) -> str:
    """The torch that was tested with a Python."""
    return TESTED_TORCH[python >= FIRST_OF_MAIN]


def check_python(python: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """Whether this Python is one that the package, and fairseq, run on.

    Args:
        python (tuple of int): its version.
    """
    found = f"{'.'.join(map(str, python))}, {platform.platform(terse=True)}, {sys.executable}"
    if python < _FIRST_PYTHON:
        return Finding(
            "python", ERROR, found, "tupe_fairseq needs Python 3.10 or later",
            "python3.11 -m venv .venv",
        )  # fmt: skip
    if python >= FIRST_WITHOUT_FAIRSEQ:
        return Finding(
            "python", WARNING, found, "fairseq runs on Python 3.10 to 3.12 only: the encoder and "
            "exported models work here, training does not", "python3.12 -m venv .venv",
        )  # fmt: skip
    return Finding("python", OK, found)


def check_torch(python: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """Whether torch can be imported, and is not too old."""
    version = version_of("torch")
    command = f"pip install torch=={tested_torch(python)}"
    if version is not None and release(version) < _FIRST_TORCH:
        return Finding("torch", ERROR, version, "tupe_fairseq needs torch 2.10 or later", command)
    try:
        import torch
    except Exception as error:  # of its libraries, too
        if version is None and isinstance(error, ModuleNotFoundError):
            return Finding("torch", ERROR, "not installed", "nothing works without it", command)
        again = command.replace("install", "install --force-reinstall")
        return Finding("torch", ERROR, f"{version}", f"import torch fails: {brief(error)}", again)
    if release(torch.__version__) < _FIRST_TORCH:  # not installed by pip
        wrong = "tupe_fairseq needs torch 2.10 or later"
        return Finding("torch", ERROR, torch.__version__, wrong, command)
    return Finding("torch", OK, torch.__version__)


def check_numpy(fairseq: str | None = None) -> Finding:
    """Whether numpy is there, and works with torch and with fairseq.

    Args:
        fairseq (str, optional): the version of the distribution ``fairseq``, the official one.
    """
    version = version_of("numpy")
    if version is None:
        return Finding(
            "numpy", ERROR, "not installed", "data cannot be read without it", "pip install numpy"
        )
    is_official = fairseq is not None and fairseq.startswith("0.12.2")
    if is_official and release(version) >= _NUMPY_OF_OFFICIAL:
        return Finding(
            "numpy", ERROR, version, f"fairseq {fairseq} uses numpy.float and numpy.int, which "
            "numpy 1.24 removed", "pip install 'numpy<1.24'",
        )  # fmt: skip
    try:
        import numpy
    except Exception as error:  # of its libraries, too
        again = "pip install --force-reinstall numpy"
        return Finding("numpy", ERROR, version, f"import numpy fails: {brief(error)}", again)
    wrong = _not_with_torch(numpy)
    if wrong:
        return Finding("numpy", ERROR, version, wrong, "pip install 'numpy<2'")
    return Finding("numpy", OK, version)


def _not_with_torch(numpy) -> str:
    """Why torch cannot use this numpy; empty if it can, or if there is no torch."""
    try:
        import torch
    except Exception:  # which has a finding of its own
        return ""
    try:
        torch.from_numpy(numpy.zeros(1)).numpy()
    except Exception as error:
        return f"torch {torch.__version__} was built for another numpy: {brief(error)}"
    return ""
