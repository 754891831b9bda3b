"""Maps tensor names and options of the transformers library's RoBERTa to ours.

Its model and fairseq's compute the same; so the names become those of fairseq's stock RoBERTa,
which ``checkpoint/from_roberta.py`` converts.
"""

import argparse
import re
from typing import Any

from torch import Tensor

from tupe_fairseq.checkpoint import from_roberta
from tupe_fairseq.checkpoint.allowed_options import in_brief
from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.checkpoint.convert_options import tupe_roberta_options
from tupe_fairseq.checkpoint.state_dict import EMBEDDING, ENCODER

_POSITIONS = ENCODER + "embed_positions.weight"
_TYPES = ENCODER + "token_type"
_LM_BIAS = "encoder.lm_head.bias"
# beginnings of names, or whole ones, there and here; the first match counts
_NAMES = (
    ("roberta.embeddings.word_embeddings.weight", EMBEDDING),
    ("roberta.embeddings.position_embeddings.weight", _POSITIONS),
    ("roberta.embeddings.token_type_embeddings.weight", _TYPES),
    ("roberta.embeddings.LayerNorm.", ENCODER + "layernorm_embedding."),
    ("roberta.encoder.layer.", ENCODER + "layers."),
    ("lm_head.decoder.weight", "encoder.lm_head.weight"),
    ("lm_head.decoder.bias", _LM_BIAS),
    ("lm_head.", "encoder.lm_head."),
)
# in a layer
_PARTS = (
    (".attention.self.query.", ".self_attn.q_proj."),
    (".attention.self.key.", ".self_attn.k_proj."),
    (".attention.self.value.", ".self_attn.v_proj."),
    (".attention.output.dense.", ".self_attn.out_proj."),
    (".attention.output.LayerNorm.", ".self_attn_layer_norm."),
    (".intermediate.dense.", ".fc1."),
    (".output.dense.", ".fc2."),
    (".output.LayerNorm.", ".final_layer_norm."),
)
_SIZES = {
    "hidden_size": "encoder_embed_dim",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_embed_dim",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
}
# What would make it another model, with the only value that is allowed.
_FIXED = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-5,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
}
# rows of the table that no token reads: it numbers tokens from 2 on
_UNUSED_ROWS = 2


def convert_options(config: dict[str, Any], path: str) -> argparse.Namespace:
    """The options of the tupe_roberta checkpoint that a folder becomes.

    Args:
        config (dict): the content of config.json.
        path (str): its name, for messages.
    Raises:
        CheckpointError: if they are those of another model, or one is missing or not what it may
            be.
    """
    needed = (*_SIZES, "max_position_embeddings", "layer_norm_eps")
    missing = [name for name in needed if config.get(name) is None]
    if missing:
        raise CheckpointError(f"{path} does not say {', '.join(missing)}")
    wrong = [
        f"{name} {in_brief(config[name])}, not {value}"
        for name, value in _FIXED.items()
        if config.get(name) is not None and config[name] != value
    ]
    if wrong:
        raise CheckpointError(
            f"{path} describes a model that tupe_roberta cannot be: {'; '.join(wrong)}"
        )
    length, dropout = config["max_position_embeddings"], config.get("classifier_dropout")
    if type(length) is not int or length <= _UNUSED_ROWS:
        raise CheckpointError(f"{path}: max_position_embeddings is {in_brief(length)}")
    given = {ours: config[name] for name, ours in _SIZES.items()}
    given["max_positions"] = length - _UNUSED_ROWS
    given["pooler_dropout"] = given["dropout"] if dropout is None else dropout
    given["untie_weights_roberta"] = config.get("tie_word_embeddings") is False
    defaults = dict.fromkeys(("pooler_dropout", "untie_weights_roberta"))
    return tupe_roberta_options(given, {}, defaults, {"position_encoding": "learned"})


def rename_tensors(tensors: dict[str, Tensor], head: str, tied: bool) -> dict[str, Tensor]:
    """The state dict of tupe_roberta with ``learned`` positions; what is unknown keeps its name.

    Every token there is of type 0, whose vector is added to the positions.

    Args:
        tensors (dict): those of a folder.
        head (str): the name that ``classifier`` gets among the classification heads.
        tied (bool): whether the LM head's matrix is the word embedding, even if it is not there.
    Raises:
        CheckpointError: if a tensor is there twice.
    """
    model: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        renamed = _renamed(name, head)
        if renamed in model and not (renamed == _LM_BIAS and tensor.equal(model[renamed])):
            raise CheckpointError(f"the tensor {name} is there twice")
        model[renamed] = tensor
    types, positions = model.pop(_TYPES, None), model.get(_POSITIONS)
    if types is not None and positions is not None:
        if types.dim() != 2 or types.shape[1:] != positions.shape[1:]:
            raise CheckpointError(
                f"token_type_embeddings.weight is {list(types.shape)}, and "
                f"position_embeddings.weight {list(positions.shape)}"
            )
        if types[0].any():  # adding zeros would change the sign of zeros
            model[_POSITIONS] = positions.float() + types[0].float()
    if tied and EMBEDDING in model:
        model.setdefault("encoder.lm_head.weight", model[EMBEDDING])
    return from_roberta.rename_tensors(model)


def _renamed(name: str, head: str) -> str:
    for theirs, ours in (*_NAMES, ("classifier.", f"classification_heads.{head}.")):
        if name == theirs or (theirs.endswith(".") and name.startswith(theirs)):
            name = ours + name[len(theirs) :]
            break
    if re.match(re.escape(ENCODER) + r"layers\.\d+\.", name):
        for theirs, ours in _PARTS:
            if theirs in name:
                return name.replace(theirs, ours, 1)
    return name
