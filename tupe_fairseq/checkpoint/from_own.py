"""Reads a checkpoint of this project, to write it anew with what every line of fairseq knows.

A checkpoint of fairseq's main branch has options that 0.12.2 refuses, so that its own
``RobertaModel.from_pretrained`` and ``fairseq-validate`` cannot load it.
"""

import argparse
from typing import Any

from tupe_fairseq.checkpoint.allowed_options import checked_options
from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.checkpoint.convert_options import MODEL_DEFAULTS
from tupe_fairseq.checkpoint.from_learned import HIDDEN_SYMBOLS, NAME, rename_tensors

__all__ = ["HIDDEN_SYMBOLS", "NAME", "convert_options", "rename_tensors"]

# how a model is computed, which may not work elsewhere
_ANYWHERE = {
    "attn_impl": "auto",
    "unpad": False,
    "compile_layers": False,
    "checkpoint_activations": False,
    "offload_activations": False,
}
_DEFAULTS = {**MODEL_DEFAULTS, "pooler_dropout": 0.1, "task": "masked_lm"}


def convert_options(given: dict[str, Any]) -> argparse.Namespace:
    """Its options, of model and task.

    Raises:
        CheckpointError: if an option is not what it may be, or the longest sequence is not named.
    """
    options = checked_options(given, "the checkpoint")
    if "max_positions" not in options:
        raise CheckpointError("the checkpoint is refused: it has no option max_positions")
    # left out, fairseq would take it for True
    kept = {"regression_target": False, **_DEFAULTS, **options, **_ANYWHERE}
    kept.setdefault("tokens_per_sample", kept["max_positions"])
    return argparse.Namespace(**kept, criterion=kept["task"], data=".")
