"""Writes the files of a transformers model directory."""

import os
import shutil
from typing import Any

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.checkpoint import EMBEDDING
from tupe_fairseq.data.dictionary import UNK
from tupe_fairseq.export.names import LM_WEIGHT
from tupe_fairseq.files import write_json

#: the code of a TUPE model, copied as it is
CODE = ("configuration_tupe.py", "modeling_tupe.py")
WEIGHTS = "model.safetensors"
#: what only some exports write
SOME = (*CODE, "onnx/model.onnx", "onnx/model_masked_lm.onnx")
# What further tokens have less than <unk> as predictions, so that even thousands of them take
# nothing from the probabilities of others, while a loss on one is still finite
_LESS = 20.0


def write_model(folder: str, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """config.json, the weights, and the code of a TUPE model."""
    from safetensors.torch import save_file

    write_json(os.path.join(folder, "config.json"), config)
    save_file(tensors, os.path.join(folder, WEIGHTS), metadata={"format": "pt"})
    # safetensors lets nobody else read it
    shutil.copymode(os.path.join(folder, "config.json"), os.path.join(folder, WEIGHTS))
    for name in CODE if "auto_map" in config else ():
        shutil.copyfile(os.path.join(os.path.dirname(__file__), name), os.path.join(folder, name))


def write_sentence_files(folder: str, pooling: str, hidden_size: int, max_length: int) -> None:
    """The files of sentence-transformers, in the form that embedding servers read, too."""
    modules = "sentence_transformers.models"
    files = {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{modules}.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{modules}.Pooling"},
        ],
        "sentence_bert_config.json": {"max_seq_length": max_length, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "model_type": "SentenceTransformer",
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "1_Pooling/config.json": {
            "word_embedding_dimension": hidden_size,
            "pooling_mode_mean_tokens": pooling == "mean",
            "pooling_mode_cls_token": pooling == "cls",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
            "include_prompt": True,
        },
    }
    for name, content in files.items():
        write_json(os.path.join(folder, name), content)


# ---- Tokens that dict.txt lacks -----------------------------------------------------------------


def with_unlisted(state: dict[str, Tensor], count: int) -> dict[str, Tensor]:
    """A checkpoint's tensors with ``count`` further tokens, which have the vectors of <unk>."""
    state = dict(state)
    for name in (EMBEDDING, LM_WEIGHT):
        state[name] = torch.cat([state[name], state[name][UNK].expand(count, -1)])
    bias = state["encoder.lm_head.bias"]
    state["encoder.lm_head.bias"] = torch.cat([bias, (bias[UNK] - _LESS).expand(count)])
    return state


def without_unlisted(state: dict[str, Tensor], count: int) -> dict[str, Tensor]:
    """The way back."""
    names = (EMBEDDING, LM_WEIGHT, "encoder.lm_head.bias")
    return {
        name: tensor[: len(tensor) - count].clone() if name in names else tensor
        for name, tensor in state.items()
    }
