"""Checks of fairseq: which one it is, that there is one only, that it can be imported and used."""

import argparse
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator

from tupe_fairseq.cli.extras import FIRST_WITHOUT_FAIRSEQ
from tupe_fairseq.doctor.finding import ERROR, OK, WARNING, Finding, brief
from tupe_fairseq.doctor.installed import Distribution, distributions_of, place_of, version_of
from tupe_fairseq.doctor.python_and_torch import FIRST_OF_MAIN

_EXTRA = "pip install 'tupe_fairseq[fairseq]'"
# what fairseq is compiled for; without it, training stops at the first batch
_COMPILED = ("fairseq.data.data_utils_fast", "fairseq.data.token_block_utils_fast")
#: what each line of fairseq needs for its configurations
_CONFIGURATION = {
    True: "pip install 'omegaconf<2.1' 'hydra-core<1.1' (pip itself below 24.1)",
    False: "pip install 'omegaconf>=2.2' 'hydra-core>=1.3.2'",
}


def check_fairseq(python: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """Which fairseq there is, and whether it can be imported.

    Args:
        python (tuple of int): the version of Python.
    """
    installed, place = distributions_of("fairseq"), place_of("fairseq")
    if place is None:
        return _absent(installed, python)
    found = f"{', '.join(map(str, installed)) or 'of no distribution'}, in {place}"
    if len(installed) > 1:
        names = " ".join(one.name for one in installed)
        return Finding(
            "fairseq", ERROR, found, f"{len(installed)} distributions have written into one "
            "folder, each over the files of the other",
            f"pip uninstall -y {names} && pip install {_right_one(python)}",
        )  # fmt: skip
    try:
        import fairseq  # noqa: F401
    except Exception as error:  # it imports a good part of what is installed
        return _cannot_be_imported(installed, found, error, python)
    return _as_built(found)


def check_omegaconf() -> Finding:
    """Whether fairseq can make a configuration with this omegaconf and Hydra."""
    versions = {name: version_of(name) for name in ("omegaconf", "hydra-core")}
    found = ", ".join(f"{name} {version or 'not installed'}" for name, version in versions.items())
    if place_of("fairseq") is None:
        return Finding("omegaconf", OK, f"{found} (for fairseq, which is not installed)")
    is_official = any(one.name == "fairseq" for one in distributions_of("fairseq"))
    try:
        from fairseq.dataclass.utils import convert_namespace_to_omegaconf

        # a model whose options are a plain bag, as those of every tupe_roberta are
        options = argparse.Namespace(arch="roberta", task="masked_lm", data="data-bin")
        made = convert_namespace_to_omegaconf(options)
        if made.task._name != "masked_lm" or made.model.arch != "roberta":
            raise ValueError(f"task and model became {made.task} and {made.model}")
    except Exception as error:
        wrong = f"fairseq cannot make a configuration with it: {brief(error)}"
        return Finding("omegaconf", ERROR, found, wrong, _CONFIGURATION[is_official])
    return Finding("omegaconf", OK, found)


def official_version() -> Iterator[str]:
    """The version of the distribution ``fairseq``, if it is there."""
    return (one.version for one in distributions_of("fairseq") if one.name == "fairseq")


def _right_one(python: tuple[int, ...]) -> str:
    """What to install."""
    return "fairseq==0.12.2" if python < FIRST_OF_MAIN else "ve-fairseq==0.12.3"


def _absent(installed: list[Distribution], python: tuple[int, ...]) -> Finding:
    if installed:  # by the records of pip
        names = " ".join(one.name for one in installed)
        return Finding(
            "fairseq", ERROR, ", ".join(map(str, installed)), "its files are gone",
            f"pip uninstall -y {names} && pip install {_right_one(python)}",
        )  # fmt: skip
    wrong = "the encoder and exported models work; training, preparation and conversion need it"
    command = _EXTRA
    if python >= FIRST_WITHOUT_FAIRSEQ:
        command = f"python3.12 -m venv .venv && .venv/bin/{_EXTRA}"
    return Finding("fairseq", WARNING, "not installed", wrong, command)


def _cannot_be_imported(
    installed: list[Distribution], found: str, error: Exception, python: tuple[int, ...]
) -> Finding:
    wrong = f"import fairseq fails: {brief(error)}"
    names = " ".join(one.name for one in installed)
    if python >= FIRST_OF_MAIN and names == "fairseq":
        wrong = f"the official fairseq cannot be imported on Python {python[0]}.{python[1]}"
    remove = f"pip uninstall -y {names} && " if names else ""
    right = _right_one(python)
    return Finding("fairseq", ERROR, found, wrong, f"{remove}pip install {right}")


def _as_built(found: str) -> Finding:
    absent = [name for name in _COMPILED if importlib.util.find_spec(name) is None]
    if absent:
        return Finding(
            "fairseq", ERROR, found, f"{', '.join(absent)} are not compiled, which reading data "
            "needs", "python setup.py build_ext --inplace (in the clone of fairseq)",
        )  # fmt: skip
    beside_python = os.path.join(os.path.dirname(sys.executable), "fairseq-train")
    if not os.path.exists(beside_python) and shutil.which("fairseq-train") is None:
        return Finding(
            "fairseq", WARNING, found, f"there is no fairseq-train beside {sys.executable}, nor on "
            "PATH", "pip install --force-reinstall --no-deps "
            + _right_one(sys.version_info[:3]),
        )  # fmt: skip
    return Finding("fairseq", OK, found)
