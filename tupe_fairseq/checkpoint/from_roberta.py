"""Maps tensor names and options of fairseq's stock RoBERTa to ours.

Source: Liu et al. 2019, https://arxiv.org/abs/1907.11692; fairseq/models/roberta/model.py.
"""

import argparse
import re
from typing import Any

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.checkpoint.convert_options import tupe_roberta_options

NAME = "stock fairseq"
HIDDEN_SYMBOLS = ()

# fairseq 0.12.2 keeps copies of weights in every layer, for a fused kernel.  It fills them on
# loading only and never trains them, so in a file they are stale or zero.
_STALE_COPY = re.compile(
    r"encoder\.sentence_encoder\.layers\.\d+\."
    r"(in_proj_weight|in_proj_bias|out_proj_weight|out_proj_bias"
    r"|fc1_weight|fc1_bias|fc2_weight|fc2_bias)"
)
_FORMAT_VERSION = "encoder.sentence_encoder.version"
_POSITIONS = "encoder.sentence_encoder.embed_positions.weight"
_QUERY = re.compile(r"(encoder\.sentence_encoder\.layers\.\d+\.self_attn\.)q_proj\.(weight|bias)")
# Its table begins with rows that no token reads, 0 .. padding_idx: it numbers tokens from 2 on.
_UNUSED_ROWS = 2

# Options that would make it another model than tupe_roberta can be, with the only value allowed.
_FIXED = {
    "adaptive_input": False,
    "encoder_layers_to_keep": None,
    "encoder_learned_pos": True,
    "ffn_blocks_to_remove": -1,
    "ffn_reg_scale_factor": 0,
    "layernorm_embedding": True,
    "mha_heads_to_keep": -1,
    "mha_reg_scale_factor": 0,
    "no_scale_embedding": True,
    "no_token_positional_embeddings": False,
    "quant_noise_pq": 0,
    "quant_noise_scalar": 0,
    "spectral_norm_classification_head": False,
}


def _present_name(name: str) -> str:
    """What fairseq calls a tensor today: the public releases are older."""
    if name.startswith("decoder."):
        name = name.replace("decoder.", "encoder.", 1)
    return name.replace(".emb_layer_norm.", ".layernorm_embedding.")


def rename_tensors(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """A state dict of RoBERTa as that of tupe_roberta with ``learned`` positions.

    Query, key and value projections become one matrix, (3 D, D), as they were in the oldest
    releases; what is not as expected keeps its name, to be reported.

    Raises:
        CheckpointError: if a tensor is there under its old and its present name.
    """
    model = {}
    for name, tensor in theirs.items():
        present = _present_name(name)
        if present in model:
            raise CheckpointError(f"the tensor {present} is there twice, once as {name}")
        if present != _FORMAT_VERSION and not _STALE_COPY.fullmatch(present):
            model[present] = tensor
    if _POSITIONS in model:
        positions = model.pop(_POSITIONS)
        model["encoder.sentence_encoder.position_bias.pos.weight"] = positions[_UNUSED_ROWS:]
    for query in list(model):
        match = _QUERY.fullmatch(query)
        if match:
            _stack_projections(model, *match.groups())
    return model


def _stack_projections(model: dict[str, Tensor], attention: str, kind: str) -> None:
    names = [f"{attention}{part}_proj.{kind}" for part in "qkv"]
    stacked = f"{attention}in_proj_{kind}"
    shapes = {model[name].shape if name in model else None for name in names}
    if len(shapes) == 1 and stacked not in model:
        model[stacked] = torch.cat([model.pop(name) for name in names])


def convert_options(given: dict[str, Any]) -> argparse.Namespace:
    """The options of tupe_roberta that build the same model.

    Raises:
        CheckpointError: if the options are those of another model.
    """
    defaults = {"pooler_dropout": 0.0, "untie_weights_roberta": False}
    position = {"position_encoding": "learned"}
    return tupe_roberta_options(given, _FIXED, defaults, position)
