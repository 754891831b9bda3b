"""TUPE (Transformer with Untied Positional Encoding) as a fairseq plugin.

``TupeEncoder``, ``TupeConfig`` and ``tupe_fairseq.position`` need torch only.  With fairseq
installed, importing this package registers the ``tupe_roberta`` architectures, which is what
``--user-dir tupe_fairseq`` does.
"""

import importlib.util

from tupe_fairseq.config import TupeConfig
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.position import TupePositionBias
from tupe_fairseq.version import __version__ as __version__

__all__ = ["TupeConfig", "TupeEncoder", "TupePositionBias"]

if importlib.util.find_spec("fairseq") is not None:
    from tupe_fairseq.models.tupe_roberta import TupeRobertaModel  # noqa: F401
    from tupe_fairseq.plugin.glue import criterion, task, warmup_ratio  # noqa: F401
    from tupe_fairseq.plugin.on_import import know_own_spellings

    __all__.append("TupeRobertaModel")
    know_own_spellings(__path__)
else:

    def __getattr__(name):
        if name == "TupeRobertaModel":
            # raises, and says what to install
            from tupe_fairseq.models.tupe_roberta import TupeRobertaModel

            return TupeRobertaModel
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
