"""TUPE (Transformer with Untied Positional Encoding) as a fairseq plugin.

``TupeEncoder``, ``TupeConfig`` and ``position`` only need torch, which is imported when one of them
is first used. ``TupeRobertaModel`` needs fairseq. Our models, tasks, criterions and
optimizers are registered if ``--user-dir`` names this package, if fairseq is imported before it, or
by ``from tupe_fairseq import TupeRobertaModel``.
"""

import importlib
import importlib.util
import logging
import os
import sys
from typing import TYPE_CHECKING

from tupe_fairseq.version import __version__ as __version__

if TYPE_CHECKING:
    from tupe_fairseq.encoder import TupeEncoder
    from tupe_fairseq.models.tupe_roberta import TupeRobertaModel
    from tupe_fairseq.options import TupeConfig
    from tupe_fairseq.position.tupe import TupePositionBias

__all__ = ["TupeConfig", "TupeEncoder", "TupePositionBias", "TupeRobertaModel"]
if importlib.util.find_spec("fairseq") is None:  # import * and inspect would ask for it
    __all__.remove("TupeRobertaModel")

_HOME = {
    "TupeConfig": "options",
    "TupeEncoder": "encoder",
    "TupePositionBias": "position.tupe",
    "TupeRobertaModel": "models.tupe_roberta",
}


def __getattr__(name):
    if name == "position":  # not imported yet
        return importlib.import_module("tupe_fairseq.position")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "TupeRobertaModel":
        # importing fairseq's tasks would print that tensorboardX is not installed
        logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
        try:
            register()
        except ModuleNotFoundError as error:
            # hasattr needs an AttributeError, whose message `from tupe_fairseq import` would lose
            if sys._getframe(1).f_code.co_name == "_handle_fromlist":
                raise
            raise AttributeError(error) from error
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__():
    return [*__all__, "__version__", "position", "register"]


def register() -> None:
    """Import fairseq and register our models, tasks, criterions and optimizers."""
    try:
        for room in ("models", "tasks", "criterions", "optim"):
            importlib.import_module(f"{__name__}.{room}")
    except ModuleNotFoundError as error:
        from tupe_fairseq.cli.extras import explain

        raise explain(error) from error


class _OwnPath(list):
    """The package's ``__path__``, which recognizes its folder in any spelling.

    If the package is already imported, ``--user-dir PATH`` only checks that PATH is in its
    ``__path__``. But PATH can be spelled differently (``.../fairseq/../tupe_fairseq``), and the
    package is not registered yet if it was imported before fairseq.
    """

    def __contains__(self, path):
        is_own = os.path.realpath(path) == os.path.realpath(self[0])
        if is_own and sys.modules.get("fairseq"):
            register()
        return is_own


__path__ = _OwnPath(__path__)
if sys.modules.get("fairseq"):
    register()
