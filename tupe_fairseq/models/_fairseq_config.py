"""Our options in the form of fairseq's: dataclasses for flags and Hydra, presets of --arch."""

import argparse
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import Field, field, fields, make_dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, register_model_architecture
from fairseq.utils import safe_getattr

from tupe_fairseq.options import POSITION_ENCODINGS, Share, flag


def fairseq_dataclass(name: str, options: Mapping[str, Field]) -> type[FairseqDataclass]:
    """A fairseq dataclass with our options; the keys are the names of its fields."""
    columns = []
    for key, option in options.items():
        allowed = kind = option.metadata["allowed"]
        if isinstance(allowed, tuple):
            kind = ChoiceEnum(list(allowed))
        elif allowed is POSITION_ENCODINGS:
            kind = str  # a --user-dir adds to them later, see add_flags
        elif isinstance(allowed, range):
            kind = Optional[int]  # noqa: UP045, omegaconf 2.0 does not know `int | None`
        elif allowed is Share:
            kind = Optional[float]  # noqa: UP045
        columns.append((key, kind, field(default=option.default, metadata=option.metadata)))
    return make_dataclass(name, columns, bases=(FairseqDataclass,))


def add_flags(parser, options: FairseqDataclass, delete_default: bool = True) -> None:
    """Add the flags of a dataclass, by default without defaults: the architecture's preset sets
    them. The choices of position encodings are those that are registered now."""
    for x in fields(options):
        if x.metadata.get("allowed") is POSITION_ENCODINGS:
            choices = list(POSITION_ENCODINGS)
            parser.add_argument(flag(x.name), choices=choices, help=x.metadata["help"])
    gen_parser_from_dataclass(parser, options, delete_default)  # leaves out those that are there


def option_names(arch: str) -> set[str]:
    """The options of an --arch."""
    parser = argparse.ArgumentParser()
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    options, _ = parser.parse_known_args([])
    ARCH_CONFIG_REGISTRY[arch](options)
    return {*vars(options), "max_positions"}


def set_defaults(args, defaults: Mapping[str, Any]) -> None:
    """Set the options that are missing or None."""
    for name, value in defaults.items():
        if safe_getattr(args, name) is None:
            setattr(args, name, value)


def register_sizes(
    model: str,
    archs: Mapping[str, tuple[int, ...]],
    preset: Callable,
    sides: tuple[str, ...] = ("encoder",),
) -> None:
    """Register each --arch: layers, width, heads, and the inner width unless it is 4 * width."""

    def set_sizes(args, layers, width, heads, inner=None):
        sizes = {"layers": layers, "embed_dim": width, "attention_heads": heads}
        sizes["ffn_embed_dim"] = inner or 4 * width
        for side in sides:
            set_defaults(args, {f"{side}_{name}": size for name, size in sizes.items()})
        if safe_getattr(args, "bf16"):  # with bf16, fairseq-train expects a TPU
            args.tpu = False
        # without it fairseq-train ends with exit code 0 before it trains
        is_asynchronous = safe_getattr(args, "write_checkpoints_asynchronously")
        if is_asynchronous and importlib.util.find_spec("iopath") is None:
            raise ValueError("--write-checkpoints-asynchronously needs iopath; pip install iopath")
        preset(args)

    for arch, size in archs.items():
        register_model_architecture(model, arch)(lambda args, size=size: set_sizes(args, *size))
