"""Reads a checkpoint of our own ``learned``, which is fairseq's RoBERTa under other names."""

import argparse
from typing import Any

from torch import Tensor

from tupe_fairseq.checkpoint import from_roberta
from tupe_fairseq.checkpoint.allowed_options import checked_options
from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.checkpoint.state_dict import ENCODER, VOCABULARY
from tupe_fairseq.checkpoint.untie import check_untied

NAME = "this project"
HIDDEN_SYMBOLS = ()

_DEFAULTS = {"position_encoding": "tupe", "encoder_normalize_before": False}


def rename_tensors(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Its state dict without the records of options and vocabulary, which conversion makes new."""
    records = {VOCABULARY, f"{ENCODER}position_version"}
    return {name: tensor for name, tensor in ours.items() if name not in records}


def convert_options(given: dict[str, Any]) -> argparse.Namespace:
    """Its options.

    Raises:
        CheckpointError: if an option is not of its type, or is not one of plain learned positions.
    """
    given = checked_options(given, "the checkpoint")
    if "max_positions" not in given:
        raise CheckpointError("the checkpoint is refused: it has no option max_positions")
    check_untied(argparse.Namespace(**{**_DEFAULTS, **given}))
    # ours has no position embedding of fairseq's own
    given.pop("no_token_positional_embeddings", None)
    options = from_roberta.convert_options(given)
    if "pooling" in given:  # which fairseq's RoBERTa has not
        options.pooling = given["pooling"]
    return options
