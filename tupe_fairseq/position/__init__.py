"""Position encodings, apart from any Transformer: torch only.

Only the files of this folder know where a token stands.  Every module here maps a length to a
bias on the attention scores, ``forward(seq_len) -> (num_heads, seq_len, seq_len)``.
"""

from tupe_fairseq.position.cache import ResultCache
from tupe_fairseq.position.relative import RelativePositionBias, relative_position_bucket
from tupe_fairseq.position.tupe import TupePositionBias
from tupe_fairseq.position.untie_cls import untie_cls
from tupe_fairseq.position.untied_absolute import UntiedAbsoluteBias

__all__ = [
    "RelativePositionBias",
    "ResultCache",
    "TupePositionBias",
    "UntiedAbsoluteBias",
    "relative_position_bucket",
    "untie_cls",
]
