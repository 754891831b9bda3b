"""Our options as fairseq's: dataclasses for flags and Hydra, and the presets of --arch."""

from collections.abc import Callable, Mapping
from dataclasses import Field, field, make_dataclass
from functools import partial
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model_architecture
from fairseq.utils import safe_getattr


def fairseq_dataclass(name: str, options: Mapping[str, Field]) -> type[FairseqDataclass]:
    """A dataclass of fairseq with options of ours, of which some have another name in it."""
    columns = []
    for key, option in options.items():
        allowed = kind = option.metadata["allowed"]
        if isinstance(allowed, tuple):
            kind = ChoiceEnum(list(allowed))
        elif isinstance(allowed, range):
            kind = Optional[int]  # noqa: UP045, omegaconf 2.0 does not know `int | None`
        help = {"help": option.metadata["help"]}
        columns.append((key, kind, field(default=option.default, metadata=help)))
    return make_dataclass(name, columns, bases=(FairseqDataclass,))


def set_defaults(args, defaults: Mapping[str, Any]) -> None:
    """Set the options that are not given."""
    for name, value in defaults.items():
        setattr(args, name, safe_getattr(args, name, value))


def register_sizes(
    model: str,
    sizes: Mapping[str, tuple[int, ...]],
    preset: Callable,
    sides: tuple[str, ...] = ("encoder",),
) -> None:
    """Register each --arch: layers, width, heads, and the inner width if it is not 4 widths."""
    for arch, size in sizes.items():
        register_model_architecture(model, arch)(partial(_set_sizes, size, preset, sides))


def _set_sizes(size: tuple[int, ...], preset: Callable, sides: tuple[str, ...], args) -> None:
    layers, width, heads, *inner = size
    for side in sides:
        defaults = {
            f"{side}_layers": layers,
            f"{side}_embed_dim": width,
            f"{side}_ffn_embed_dim": inner[0] if inner else 4 * width,
            f"{side}_attention_heads": heads,
        }
        set_defaults(args, defaults)
    preset(args)
