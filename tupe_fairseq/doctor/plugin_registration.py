"""Checks whether fairseq knows the plugin, and whether the copy that runs is the installed one."""

import os
from collections.abc import Sequence

from tupe_fairseq import register
from tupe_fairseq.doctor.finding import ERROR, OK, WARNING, Finding
from tupe_fairseq.doctor.installed import Distribution, distributions_of, place_of, scripts_of
from tupe_fairseq.version import __version__

# each has a criterion of its name
_TASKS = ("glue_sentence_prediction", "token_tagging")
_REINSTALL = "pip install -e . (in the clone; without -e for a copy)"


def check_registration(scripts: Sequence[str]) -> Finding:
    """Whether fairseq has the architectures and tasks, and pip this copy with all its scripts.

    Args:
        scripts (sequence of str): the console scripts of this version.
    """
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = f"tupe_fairseq {__version__}, in {here}"
    if place_of("fairseq") is not None:
        from fairseq.criterions import CRITERION_REGISTRY
        from fairseq.models import ARCH_MODEL_REGISTRY
        from fairseq.tasks import TASK_REGISTRY

        register()  # as --user-dir does
        archs = [name for name in ARCH_MODEL_REGISTRY if name.startswith("tupe_roberta")]
        absent = [n for n in _TASKS if n not in TASK_REGISTRY or n not in CRITERION_REGISTRY]
        if absent or not archs:
            wrong = f"fairseq does not know {', '.join(absent) or 'its models'}"
            return Finding("plugin", ERROR, found, wrong, f"fairseq-train ... --user-dir {here}")
        found += f", {len(archs)} architectures known to fairseq"
    installed = distributions_of("tupe_fairseq")
    if len(installed) > 1:
        names = " ".join(one.name for one in installed)
        wrong = f"{len(installed)} distributions bring it: {', '.join(map(str, installed))}"
        return Finding("plugin", WARNING, found, wrong, f"pip uninstall -y {names} && {_REINSTALL}")
    wrong = _not_as_installed(installed, scripts)
    if wrong:
        return Finding("plugin", WARNING, found, wrong, _REINSTALL)
    return Finding("plugin", OK, found)


def _not_as_installed(installed: Sequence[Distribution], scripts: Sequence[str]) -> str:
    """How this copy differs from the one that pip knows; empty if it does not."""
    if not installed:
        return "pip does not know it: there are no tupe-... commands"
    (distribution,) = installed
    if distribution.version != __version__:
        return f"pip has {distribution}, another version than the one that runs"
    absent = sorted(set(scripts) - set(scripts_of(distribution.name)))
    if absent:
        return f"it was installed before it had {', '.join(absent)}"
    return ""
