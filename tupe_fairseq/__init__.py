"""TUPE (Transformer with Untied Positional Encoding) as a fairseq plugin.

``TupeEncoder``, ``TupeConfig`` and ``tupe_fairseq.position`` need torch only, and load nothing
else; nothing at all is loaded before one of them is asked for, so that ``tupe-doctor`` can look at
a torch that cannot be imported.  As soon as both this package and fairseq are imported, in either
order, fairseq knows the ``tupe_roberta`` architectures and GLUE's task and criterion, which is what
``--user-dir tupe_fairseq`` does.
"""

import importlib.util
from typing import TYPE_CHECKING

from tupe_fairseq.missing_package import name_missing_packages
from tupe_fairseq.register import register_with_fairseq
from tupe_fairseq.version import __version__ as __version__

if TYPE_CHECKING:
    from tupe_fairseq.encoder import TupeEncoder
    from tupe_fairseq.options import TupeConfig
    from tupe_fairseq.position import TupePositionBias

__all__ = ["TupeConfig", "TupeEncoder", "TupePositionBias"]

name_missing_packages()


def __getattr__(name):
    if name == "TupeConfig":
        from tupe_fairseq.options import TupeConfig as found
    elif name == "TupeEncoder":
        from tupe_fairseq.encoder import TupeEncoder as found
    elif name == "TupePositionBias":
        from tupe_fairseq.position import TupePositionBias as found
    elif name == "TupeRobertaModel":
        # raises, and says what to install, if fairseq is missing
        from tupe_fairseq.models.tupe_roberta import TupeRobertaModel as found
    elif name == "position":  # without an import of its own
        found = importlib.import_module("tupe_fairseq.position")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


if importlib.util.find_spec("fairseq") is not None:
    __all__.append("TupeRobertaModel")
    register_with_fairseq(__path__)
