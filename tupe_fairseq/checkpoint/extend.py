"""Extends a model to longer sequences: ``tupe-extend``."""

import argparse
import dataclasses

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.checkpoint import ENCODER
from tupe_fairseq.checkpoint.model import Model, complete
from tupe_fairseq.checkpoint.options import ExtendOptions
from tupe_fairseq.checkpoint.write import output_of_model, save_model
from tupe_fairseq.data.tokenizer import find_dictionary
from tupe_fairseq.flags import takes
from tupe_fairseq.modules.record import RECORD, options_record
from tupe_fairseq.options import TupeConfig
from tupe_fairseq.position import get_position_encoding


@takes(ExtendOptions)
def extend_checkpoint(options: ExtendOptions) -> argparse.Namespace:
    """Write a folder with a longer model, as tupe-extend does; returns the model's options."""
    checkpoint, sources = options.checkpoint, options.folders()
    with output_of_model(options.output_dir, sources, options.overwrite) as folder:
        model = Model.read(checkpoint, find_dictionary(sources))
        if model.origin:
            raise ValueError(
                f"{checkpoint} is from {model.origin}; first convert it to a checkpoint of this "
                "project with tupe-convert"
            )
        model = extend(model, options.max_positions, options.method)
        complete(model)
        save_model(model, folder, sources=sources)
    return model.options


def extend(model: Model, max_positions: int, method: str | None) -> Model:
    """The same model for sequences of up to ``max_positions`` tokens; only a table changes."""
    options = model.options
    old, name = options.max_positions, options.position_encoding
    if max_positions <= old:
        raise ValueError(
            f"--max-positions ({max_positions}) must be above the checkpoint's, {old}: a model "
            "cannot be shortened"
        )
    encoding, methods = get_position_encoding(name), ["interpolate", "tile"]
    what = "has a table of positions"
    if encoding.TABLE is None and encoding.max_positions_is_unit:
        methods = ["interpolate"]
        what = "measures distances in units of max_positions: the learned ones are stretched by "
        what += f"{max_positions / old:g}, even in short texts"
    elif encoding.TABLE is None:
        methods, what = [], "has no table of positions"
    if method not in (methods or [None]):
        advice = f"give --method {' or '.join(methods)}" if methods else "drop --method"
        raise ValueError(f"{name} {what}; {advice}")
    # fairseq's masked_lm takes tokens_per_sample for the longest sample
    lengths = {
        "max_positions": max_positions,
        "tokens_per_sample": max(max_positions, options.tokens_per_sample),
    }
    tensors, remarks = dict(model.tensors), [f"max_positions was {old}, is {max_positions}"]
    if encoding.TABLE is not None and method:
        key = f"{ENCODER}position_bias.{encoding.TABLE}"
        table = tensors[key] = longer_table(tensors[key], old, max_positions, method)
        remarks.append(
            f"{key}: {len(model.tensors[key])} rows became {len(table)} (--method {method}); "
            "[CLS]'s rows and all other weights, including tables of distances, are unchanged"
        )
    else:
        remarks.append(f"{name} {what}; no weight has changed")
    options = argparse.Namespace(**{**vars(options), **lengths})
    tensors[ENCODER + RECORD] = options_record(TupeConfig.from_roberta_options(options))
    remarks = [*model.remarks, *remarks]
    return dataclasses.replace(model, tensors=tensors, options=options, remarks=remarks)


def longer_table(table: Tensor, old: int, new: int, method: str) -> Tensor:
    """Extend a table of ``old`` positions, M, to ``new`` positions, N.

    The rows of [CLS] do not change: the one of position 0 and, for tupe, the one before it.
    ``tile`` repeats the others, 1 .. M - 1, in order. ``interpolate`` spreads them evenly over
    1 .. N - 1, both ends included, and interpolates linearly: position i is old position
    1 + (i - 1) (M - 2) / (N - 2).

    Shape: (M, D), for tupe (M + 1, D) -> (N, D), for tupe (N + 1, D).
    """
    of_cls = table.size(0) - old + 1
    cls, others = table[:of_cls], table[of_cls:]
    number = new - 1
    if method == "tile":
        return torch.cat([cls, others[torch.arange(number) % len(others)]])
    # in float64, and exact at the old rows
    places = torch.arange(number, dtype=torch.float64) * (len(others) - 1) / (number - 1)
    before = places.long()
    after = (before + 1).clamp(max=len(others) - 1)
    share = (places - before).unsqueeze(1)
    mixed = (1 - share) * others[before].double() + share * others[after].double()
    return torch.cat([cls, mixed.to(others.dtype)])
