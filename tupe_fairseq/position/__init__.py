"""Position encodings, independent of any Transformer. No other folder knows token positions."""

from importlib import import_module
from typing import Any

from tupe_fairseq.options import POSITION_ENCODINGS, PositionOptions, TupeConfig, flag
from tupe_fairseq.position.base import PositionEncoding


def _class_at(place: str) -> type[PositionEncoding]:
    module, _, name = place.partition(".")
    return getattr(import_module(f"{__name__}.{module}"), name)


CATALOGUE = {name: _class_at(place) for name, place in POSITION_ENCODINGS.items()}


def get_position_encoding(name: str) -> type[PositionEncoding]:
    """Look up an encoding's class by name. Add your own class to ``CATALOGUE``."""
    if name not in CATALOGUE:
        raise ValueError(
            f"unknown position encoding {name!r}; --position-encoding is one of "
            f"{', '.join(CATALOGUE)}"
        )
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
    return position_of(config, causal=causal)


def position_of(config: TupeConfig, *, causal: bool = False) -> PositionEncoding:
    """Build the position encoding that a model's options describe."""
    encoding, options = get_position_encoding(config.position_encoding), config.position_options
    for key, value in options.items():
        if key not in encoding.takes:
            raise ValueError(
                f"position encoding {config.position_encoding!r} does not take {key} ({value}); "
                f"its options: {', '.join(encoding.takes) or 'none'}. Drop {flag(key)} or choose "
                "another encoding"
            )
        if key not in encoding.defaults(config.rel_pos):
            raise ValueError(
                f"{key} ({value}) has no effect without rel_pos; add --rel-pos or drop {flag(key)}"
            )
    options.pop("position_each_layer", None)  # the encoder applies it
    sizes = config.embed_dim, config.num_heads, config.max_positions
    return encoding(*sizes, causal=causal, **options)
