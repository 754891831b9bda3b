"""Position encodings, independent of any Transformer. No other folder knows token positions."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from tupe_fairseq.options import (
    POSITION_ENCODINGS,
    POSITION_OPTIONS,
    PositionOptions,
    TupeConfig,
    violation,
)
from tupe_fairseq.position.base import PositionEncoding

Encoding = TypeVar("Encoding", bound=type[PositionEncoding])


def _class_at(place: str) -> type[PositionEncoding]:
    module, _, name = place.partition(".")
    return getattr(import_module(f"{__name__}.{module}"), name)


#: all position encodings by name, also those of a --user-dir
CATALOGUE: dict[str, type[PositionEncoding]] = POSITION_ENCODINGS
CATALOGUE.update({name: _class_at(place) for name, place in POSITION_ENCODINGS.items()})


def register_position_encoding(name: str) -> Callable[[Encoding], Encoding]:
    """A decorator for a class of your own, see examples/positions: ``--position-encoding NAME``."""

    def register(encoding: Encoding) -> Encoding:
        if name in CATALOGUE:
            raise ValueError(f"there is a position encoding {name!r} already; choose another name")
        if violation(name, str):
            raise ValueError(f"{name!r} cannot name a position encoding; give a word")
        for option in encoding.takes:
            if option not in POSITION_OPTIONS:
                raise ValueError(
                    f"takes of {encoding.__name__} has {option!r}, which is not an option: it can "
                    f"have {', '.join(POSITION_OPTIONS)}"
                )
        for hook in filter(encoding.uses, ("embed", "bias")):
            if encoding.per_layer:
                raise ValueError(
                    f"{encoding.__name__} is per_layer and has {hook}, which is computed once for "
                    "all layers; drop one of them"
                )
        CATALOGUE[name] = encoding
        return encoding

    return register


def get_position_encoding(name: str) -> type[PositionEncoding]:
    """Look up an encoding's class by name."""
    words = violation(name, CATALOGUE)
    if words:
        raise ValueError(f"position_encoding ({name}) must be {words}")
    return CATALOGUE[name]


def build_position_encoding(
    name: str,
    *,
    embed_dim: int,
    num_heads: int,
    max_positions: int,
    causal: bool = False,
    **options: Any,
) -> PositionEncoding:
    """Build a position encoding from its options; None and False mean "not given"."""
    positions = PositionOptions(position_encoding=name, **options)  # refuses unknown options
    config = TupeConfig(embed_dim, num_heads, max_positions=max_positions, **vars(positions))
    return get_position_encoding(name).from_config(config, causal=causal)
