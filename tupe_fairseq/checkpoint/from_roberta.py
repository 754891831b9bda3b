"""Names and options of fairseq's RoBERTa, which is tupe_roberta with ``learned`` positions.

Source: Liu et al. 2019, https://arxiv.org/abs/1907.11692; fairseq/models/roberta/model.py.
"""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.checkpoint import ENCODER, CheckpointError
from tupe_fairseq.options import FIXED_OPTIONS

NAME = "stock fairseq"
HIDDEN_SYMBOLS = ()
#: options that would change the model, each with the only value allowed
FIXED = {**FIXED_OPTIONS, "encoder_learned_pos": True, "no_token_positional_embeddings": False}
#: options whose defaults there are not ours
DEFAULTS = {"pooler_dropout": 0.0}
#: the first rows of its table, which no token uses: positions start at padding_idx + 1 = 2
UNUSED_ROWS = 2

_POSITIONS = ENCODER + "embed_positions.weight"
# fairseq 0.12.2 keeps copies of weights in every layer, for a fused kernel. It fills them only when
# it loads a file and never trains them, so in a file they are stale or zero.
_STALE_COPY = re.compile(
    re.escape(ENCODER) + r"(version|layers\.\d+\."
    r"(in_proj_weight|in_proj_bias|out_proj_weight|out_proj_bias"
    r"|fc1_weight|fc1_bias|fc2_weight|fc2_bias))"
)


def rename_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """RoBERTa's state dict as one of tupe_roberta with ``learned`` positions."""
    model: dict[str, Tensor] = {}
    for old, tensor in tensors.items():
        # the public releases have names from 2019
        name = old.replace("decoder.", "encoder.", 1) if old.startswith("decoder.") else old
        name = name.replace(".emb_layer_norm.", ".layernorm_embedding.")
        if name in model:
            raise CheckpointError(f"the tensor {name} exists twice, once as {old}")
        if not _STALE_COPY.fullmatch(name):
            model[name] = tensor
    if _POSITIONS in model:
        model[ENCODER + "position_bias.pos.weight"] = model.pop(_POSITIONS)[UNUSED_ROWS:]
    stack_projections(model, ("q_proj.", "k_proj.", "v_proj."))
    return model


def stack_projections(model: dict[str, Tensor], parts: Sequence[str]) -> None:
    """Stack the projections of queries, keys and values into one matrix, (3 D, D)."""
    for query in [name for name in model if f".self_attn.{parts[0]}" in name]:
        three = [query.replace(parts[0], part) for part in parts]
        if {*three} <= {*model} and len({model[name].shape for name in three}) == 1:
            stacked = torch.cat([model.pop(name) for name in three])
            model[query.replace(parts[0], "in_proj_")] = stacked


def position_options(saved: dict[str, Any]) -> dict[str, Any]:
    """Our options of the position encoding."""
    return {"position_encoding": "learned"}
