"""Makes the package known to fairseq as soon as both are imported, in either order."""

import contextlib
import importlib.abc
import logging
import sys
from typing import List


def register_with_fairseq(package_path: List[str]) -> None:
    """Register architectures, task, criterion and schedule now, or once fairseq is imported.

    Importing fairseq from here would take seconds, and give the root logger a handler and a level
    of fairseq's, in programs that want a position encoding alone.

    Args:
        package_path (list of str): the package's ``__path__``, to which spellings are added.
    """
    if "fairseq" in sys.modules:
        _register(package_path)
    else:
        sys.meta_path.insert(0, _AfterFairseq(package_path))


def _register(package_path: List[str]) -> None:
    from tupe_fairseq.models import tupe_roberta  # noqa: F401
    from tupe_fairseq.plugin.glue import criterion, task, warmup_ratio  # noqa: F401
    from tupe_fairseq.plugin.on_import import know_own_spellings
    from tupe_fairseq.plugin.tagging import tagging_criterion, tagging_task  # noqa: F401

    know_own_spellings(package_path)


@contextlib.contextmanager
def _without_advice():
    """fairseq's first line on every import advises to install a package that nobody needs here."""
    logger = logging.getLogger("fairseq.tasks.text_to_speech")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


class _AfterFairseq(importlib.abc.MetaPathFinder):
    """Finds nothing itself, but waits for fairseq to be imported."""

    def __init__(self, package_path: List[str]):
        self._package_path = package_path

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "fairseq":
            return None
        finders = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(fullname, path, target) for finder in finders)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                with _without_advice():
                    execute(module)
                sys.meta_path.remove(self)
                _register(self._package_path)

            spec.loader.exec_module = exec_module
        return spec
