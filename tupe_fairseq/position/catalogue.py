"""All schemes by name."""

from typing import Any, Dict, Type

from tupe_fairseq.position.encoding import PositionEncoding
from tupe_fairseq.position.known_schemes import (
    ALIBI,
    DISENTANGLED,
    ENFORMER,
    LEARNED,
    NONE,
    ROPE,
    SHAW,
    SINUSOIDAL,
    TRANSFORMER_XL,
    TUPE,
    check_scheme_name,
)
from tupe_fairseq.position.schemes.alibi import AlibiBias
from tupe_fairseq.position.schemes.disentangled import DisentangledPositions
from tupe_fairseq.position.schemes.enformer import EnformerRelative
from tupe_fairseq.position.schemes.learned import LearnedPositions
from tupe_fairseq.position.schemes.none import NoPosition
from tupe_fairseq.position.schemes.rope import RotaryPositions
from tupe_fairseq.position.schemes.shaw import ShawRelative
from tupe_fairseq.position.schemes.sinusoidal import SinusoidalPositions
from tupe_fairseq.position.schemes.transformer_xl import TransformerXlRelative
from tupe_fairseq.position.schemes.tupe import TupePositionBias

CATALOGUE: Dict[str, Type[PositionEncoding]] = {
    TUPE: TupePositionBias,
    LEARNED: LearnedPositions,
    SINUSOIDAL: SinusoidalPositions,
    NONE: NoPosition,
    TRANSFORMER_XL: TransformerXlRelative,
    ENFORMER: EnformerRelative,
    ROPE: RotaryPositions,
    ALIBI: AlibiBias,
    SHAW: ShawRelative,
    DISENTANGLED: DisentangledPositions,
}


def get_position_encoding(name: str) -> Type[PositionEncoding]:
    """The class of a scheme.

    Raises:
        ValueError: if the name is unknown; the message lists the known ones.
    """
    check_scheme_name(name, CATALOGUE)
    return CATALOGUE[name]


def build_position_encoding(
    name: str, *, embed_dim: int, num_heads: int, max_positions: int, **options: Any
) -> PositionEncoding:
    """The position encoding of one attention, or of all layers where its definition shares it.

    Args:
        name (str): one of ``CATALOGUE``.
        embed_dim, num_heads, max_positions, causal: see :class:`PositionEncoding`.
        options: the scheme's own, ``OPTIONS`` of its class; None and False mean "not given".
    Raises:
        ValueError: if the name is unknown, or the scheme does not take an option.
    """
    scheme = get_position_encoding(name)
    causal = bool(options.pop("causal", False))
    # by identity: 0 is given, and is equal to False
    given = {k: v for k, v in options.items() if v is not None and v is not False}
    for key, value in given.items():
        if key not in scheme.OPTIONS:
            takes = ", ".join(scheme.OPTIONS) or "none"
            raise ValueError(
                f"position encoding {name!r} does not take {key} ({value}); its options: {takes}. "
                f"Drop --{key.replace('_', '-')} or choose another --position-encoding"
            )
    return scheme(embed_dim, num_heads, max_positions, causal=causal, **given)
