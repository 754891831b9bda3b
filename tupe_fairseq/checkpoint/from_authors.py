"""Maps the TUPE authors' tensor names and options to ours."""

import argparse
from typing import Any

from torch import Tensor

from tupe_fairseq.checkpoint.convert_options import tupe_roberta_options

NAME = "the TUPE authors' code"
# Their Dictionary has these symbols after fairseq's four, without listing them in dict.txt.
HIDDEN_SYMBOLS = ("<file>", "<email>", "<url>")

# Prefixes of their tensor names and of ours; the first match counts.
_RENAMED = (
    ("decoder.sentence_encoder.emb_layer_norm.", "layernorm_embedding."),
    ("decoder.sentence_encoder.emb_out_layer_norm.", "layer_norm."),
    ("decoder.sentence_encoder.pos.", "position_bias.untied_absolute.pos."),
    ("decoder.sentence_encoder.pos_ln.", "position_bias.untied_absolute.pos_ln."),
    ("decoder.sentence_encoder.pos_q_linear.", "position_bias.untied_absolute.pos_q_proj."),
    ("decoder.sentence_encoder.pos_k_linear.", "position_bias.untied_absolute.pos_k_proj."),
    (
        "decoder.sentence_encoder.relative_attention_bias.",
        "position_bias.relative.relative_attention_bias.",
    ),
    ("decoder.sentence_encoder.", ""),
)
# Options that would make it another model, with the only value that is TUPE.
_FIXED = {"embedding_normalize": True, "encoder_layers_to_keep": None}


def our_tensor_name(theirs: str) -> str:
    """The name in a tupe_roberta state dict of a tensor of the authors' state dict."""
    for prefix, ours in _RENAMED:
        if theirs.startswith(prefix):
            return "encoder.sentence_encoder." + ours + theirs[len(prefix) :]
    if theirs.startswith("decoder.lm_head."):
        return theirs.replace("decoder.", "encoder.", 1)
    return theirs


def rename_tensors(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """A state dict of theirs under our names."""
    return {our_tensor_name(name): tensor for name, tensor in theirs.items()}


def convert_options(given: dict[str, Any]) -> argparse.Namespace:
    """The options of tupe_roberta that build the same model.

    Raises:
        CheckpointError: if the options are those of another model.
    """
    position = {"position_encoding": "tupe", "rel_pos": bool(given.get("rel_pos", False))}
    if position["rel_pos"]:  # the defaults of their code
        position["rel_pos_buckets"] = given.get("rel_pos_bins", 32)
        position["max_rel_pos"] = given.get("max_rel_pos", 128)
    return tupe_roberta_options(given, _FIXED, {"pooler_dropout": 0.1}, position)
