"""Position encodings, apart from any Transformer. Only this folder knows where a token stands."""

from typing import Any

from tupe_fairseq.options import POSITION_ENCODINGS, POSITION_OPTIONS, flag
from tupe_fairseq.position.absolute import LearnedPositions, NoPosition, SinusoidalPositions
from tupe_fairseq.position.alibi import AlibiBias
from tupe_fairseq.position.base import PositionEncoding
from tupe_fairseq.position.disentangled import DisentangledPositions
from tupe_fairseq.position.relative_keys import EnformerRelative, TransformerXlRelative
from tupe_fairseq.position.rope import RotaryPositions
from tupe_fairseq.position.shaw import ShawRelative
from tupe_fairseq.position.t5_bias import RelativePositionBias, relative_position_bucket, untie_cls
from tupe_fairseq.position.tupe import TupePositionBias, UntiedAbsoluteBias

__all__ = [
    "CATALOGUE",
    "POSITION_OPTIONS",
    "PositionEncoding",
    "RelativePositionBias",
    "TupePositionBias",
    "UntiedAbsoluteBias",
    "build_position_encoding",
    "get_position_encoding",
    "relative_position_bucket",
    "untie_cls",
]

CATALOGUE: dict[str, type[PositionEncoding]] = {
    "tupe": TupePositionBias,
    "learned": LearnedPositions,
    "sinusoidal": SinusoidalPositions,
    "none": NoPosition,
    "transformer-xl": TransformerXlRelative,
    "enformer": EnformerRelative,
    "rope": RotaryPositions,
    "alibi": AlibiBias,
    "shaw": ShawRelative,
    "disentangled": DisentangledPositions,
}


def get_position_encoding(name: str) -> type[PositionEncoding]:
    """The class of a name; your own, too, once it is in ``CATALOGUE``."""
    if name not in CATALOGUE:
        raise ValueError(
            f"unknown position encoding {name!r}; --position-encoding is one of "
            f"{', '.join(CATALOGUE)}"
        )
    return CATALOGUE[name]


def build_position_encoding(
    name: str, *, embed_dim: int, num_heads: int, max_positions: int, **options: Any
) -> PositionEncoding:
    """A position encoding with its options, of which None and False mean "not given"."""
    encoding = get_position_encoding(name)
    options = {key: x for key, x in options.items() if x is not None and x is not False}
    takes = ("causal", *POSITION_ENCODINGS.get(name, options))
    for key, value in options.items():
        if key not in takes:
            raise ValueError(
                f"position encoding {name!r} does not take {key} ({value}); its options: "
                f"{', '.join(takes[1:]) or 'none'}. Drop {flag(key)} or choose another encoding"
            )
    return encoding(embed_dim, num_heads, max_positions, **options)
