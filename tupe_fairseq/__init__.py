"""TUPE (Transformer with Untied Positional Encoding) as a fairseq plugin.

``TupeEncoder``, ``TupeConfig`` and ``tupe_fairseq.position`` need torch only, and load nothing
else.  As soon as both this package and fairseq are imported, in either order, fairseq knows the
``tupe_roberta`` architectures and GLUE's task and criterion, which is what
``--user-dir tupe_fairseq`` does.
"""

import importlib.abc
import importlib.util
import sys

from tupe_fairseq.config import TupeConfig
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.position import TupePositionBias
from tupe_fairseq.version import __version__ as __version__

__all__ = ["TupeConfig", "TupeEncoder", "TupePositionBias"]


def __getattr__(name):
    if name == "TupeRobertaModel":
        # raises, and says what to install, if fairseq is missing
        from tupe_fairseq.models.tupe_roberta import TupeRobertaModel

        return TupeRobertaModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _register() -> None:
    from tupe_fairseq.models import tupe_roberta  # noqa: F401
    from tupe_fairseq.plugin.glue import criterion, task, warmup_ratio  # noqa: F401
    from tupe_fairseq.plugin.on_import import know_own_spellings

    know_own_spellings(__path__)


class _RegisterAfterFairseq(importlib.abc.MetaPathFinder):
    """Finds nothing itself, but waits for fairseq to be imported.

    Importing fairseq from here would take seconds, and give the root logger a handler and a level
    of fairseq's, in programs that want a position encoding alone.
    """

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "fairseq":
            return None
        finders = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(fullname, path, target) for finder in finders)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                sys.meta_path.remove(self)
                _register()

            spec.loader.exec_module = exec_module
        return spec


if importlib.util.find_spec("fairseq") is not None:
    __all__.append("TupeRobertaModel")
    if "fairseq" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _RegisterAfterFairseq())
