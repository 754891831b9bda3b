"""What ``tupe_fairseq.position`` offers."""

from tupe_fairseq.position.catalogue import (
    CATALOGUE,
    build_position_encoding,
    get_position_encoding,
)
from tupe_fairseq.position.encoding import PositionEncoding
from tupe_fairseq.position.options import POSITION_OPTIONS, PositionOptions
from tupe_fairseq.position.relative_position_bias import (
    RelativePositionBias,
    relative_position_bucket,
)
from tupe_fairseq.position.reset_cls import untie_cls
from tupe_fairseq.position.schemes.tupe import TupePositionBias
from tupe_fairseq.position.untied_absolute import UntiedAbsoluteBias

__all__ = [
    "CATALOGUE",
    "POSITION_OPTIONS",
    "PositionEncoding",
    "PositionOptions",
    "RelativePositionBias",
    "TupePositionBias",
    "UntiedAbsoluteBias",
    "build_position_encoding",
    "get_position_encoding",
    "relative_position_bucket",
    "untie_cls",
]
