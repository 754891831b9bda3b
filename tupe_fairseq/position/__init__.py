"""Position encodings, apart from any Transformer. Only this folder knows where a token stands."""

from importlib import import_module
from typing import Any

from tupe_fairseq.options import POSITION_ENCODINGS, POSITION_OPTIONS, TupeConfig, flag
from tupe_fairseq.position.base import PositionEncoding


def _class_at(place: str) -> type[PositionEncoding]:
    module, _, name = place.partition(".")
    return getattr(import_module(f"{__name__}.{module}"), name)


CATALOGUE = {name: _class_at(place) for name, place in POSITION_ENCODINGS.items()}


def get_position_encoding(name: str) -> type[PositionEncoding]:
    """The class of a name; your own, too, once it is in ``CATALOGUE``."""
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
    """A position encoding with its options, of which None and False mean "not given"."""
    encoding = get_position_encoding(name)
    options = {key: x for key, x in options.items() if x is not None and x is not False}
    for key, value in options.items():
        if key not in encoding.takes:
            raise ValueError(
                f"position encoding {name!r} does not take {key} ({value}); its options: "
                f"{', '.join(encoding.takes) or 'none'}. Drop {flag(key)} or choose another "
                "encoding"
            )
        if key not in encoding.defaults(options.get("rel_pos", False)):
            raise ValueError(
                f"{key} ({value}) has no effect without rel_pos; add --rel-pos or drop {flag(key)}"
            )
    known: dict[str, Any] = {key: x for key, x in options.items() if key in POSITION_OPTIONS}
    known.update(embed_dim=embed_dim, num_heads=num_heads, max_positions=max_positions)
    TupeConfig(**known)  # refuses wrong values
    options.pop("position_each_layer", None)  # the encoder's own
    return encoding(embed_dim, num_heads, max_positions, causal=causal, **options)


def position_of(config: TupeConfig, *, causal: bool = False) -> PositionEncoding:
    """The position encoding of a model's options."""
    return build_position_encoding(
        config.position_encoding,
        embed_dim=config.embed_dim,
        num_heads=config.num_heads,
        max_positions=config.max_positions,
        causal=causal,
        **config.position_options,
    )
