"""The files of a model folder but for its card, as bytes."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tupe_fairseq.export.sentence_files import sentence_files

#: what transformers loads a TUPE model from, copied as it is
CODE = ("configuration_tupe.py", "modeling_tupe.py")
#: all that tupe-export writes; "/" at the end stands for a folder
FILES = (
    "config.json",
    "model.safetensors",
    *CODE,
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
    "dict.txt",
    "README.md",
    "onnx/",
)


def code_files() -> dict[str, str]:
    """The Python files of a TUPE folder: name -> text."""
    here = Path(__file__).parent
    return {name: (here / name).read_text(encoding="utf-8") for name in CODE}


def folder_files(
    config: dict[str, Any],
    tensors: dict[str, Tensor],
    code: dict[str, str],
    tokenizer: dict[str, str],
    dictionary: bytes,
    pooling: str,
    max_length: int,
) -> dict[str, bytes]:
    """The content of each file by its path in the folder.

    Args:
        config (dict): of config.json.
        tensors (dict): of model.safetensors; no two share memory.
        code (dict): name to text of the Python files; empty if transformers has the model.
        tokenizer (dict): name to text of the tokenizer's files.
        dictionary (bytes): dict.txt, by which the folder can become a checkpoint again.
        pooling (str): how sentence-transformers makes one vector of a text.
        max_length (int): the longest sequence of tokens.
    """
    objects = {
        "config.json": config,
        **sentence_files(pooling, config["hidden_size"], max_length),
    }
    texts = {**code, **tokenizer}
    return {
        **{name: _as_json(content) for name, content in objects.items()},
        **{name: text.encode() for name, text in texts.items()},
        "dict.txt": dictionary,
        "model.safetensors": safetensors_bytes(tensors),
    }


def safetensors_bytes(tensors: dict[str, Tensor]) -> bytes:
    """A file in the safetensors format.

    Raises:
        ImportError: if safetensors is not installed.
    """
    from safetensors.torch import save

    with torch.no_grad():
        # which library wrote it: transformers asks for it
        return save(tensors, metadata={"format": "pt"})


def _as_json(content: Any) -> bytes:
    return f"{json.dumps(content, indent=2, ensure_ascii=False)}\n".encode()
