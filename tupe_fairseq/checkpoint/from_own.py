"""Reads a checkpoint of this project, to write it anew with what every line of fairseq knows.

A checkpoint of fairseq's main branch has options that 0.12.2 refuses, so that its own
``RobertaModel.from_pretrained`` and ``fairseq-validate`` cannot load it.
"""

import argparse
from typing import Any

from tupe_fairseq.checkpoint.checked_options import checked_options
from tupe_fairseq.checkpoint.convert_options import MODEL_DEFAULTS
from tupe_fairseq.checkpoint.from_learned import HIDDEN_SYMBOLS, NAME, rename_tensors
from tupe_fairseq.checkpoint.restricted_load import CheckpointError

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
# the main branch's alone
_OF_MAIN = ("d2v2_multi", "skip_masking")


def convert_options(given: dict[str, Any]) -> argparse.Namespace:
    """Its options, of model and task.

    Raises:
        CheckpointError: if an option is not what it may be, or the longest sequence is not named.
    """
    options = checked_options(given, "the checkpoint")
    if "max_positions" not in options:
        raise CheckpointError("the checkpoint is refused: it has no option max_positions")
    kept = {name: value for name, value in options.items() if name not in _OF_MAIN}
    # left out, fairseq would take it for True
    kept = {"regression_target": False, **_DEFAULTS, **kept, **_ANYWHERE}
    kept.setdefault("tokens_per_sample", kept["max_positions"])
    return argparse.Namespace(**kept, criterion=kept["task"], data=".")
