"""Model folders as the transformers library knows them, small, from checkpoints of our own."""

import argparse
import json

import torch
from safetensors.torch import save_file

from helpers.crafted import LINES, OPTIONS, whole_state
from tupe_fairseq.checkpoint.checkpoint import symbols_of, vocabulary_version
from tupe_fairseq.export.names import TUPE, Head, to_config, to_transformers

HEAD = Head("mine", ["no", "yes", "perhaps"], "classification")


def with_head(model, head=HEAD):
    """A state dict with a classification head more, or one for tags."""
    name, width = f"classification_heads.{head.name}.", 8
    dense = {
        name + "dense.weight": torch.randn(width, width),
        name + "dense.bias": torch.randn(width),
    }
    return {
        **model,
        **({} if head.of_tokens else dense),
        name + "out_proj.weight": torch.randn(len(head.labels), width),
        name + "out_proj.bias": torch.randn(len(head.labels)),
    }


def write_folder(folder, model=None, head=None, lines=LINES, **changed):
    """config.json, model.safetensors and dict.txt; ``changed`` are fields of config.json."""
    folder.mkdir()
    model = whole_state()["model"] if model is None else model
    options = argparse.Namespace(**OPTIONS, pooler_dropout=0.0)
    symbols = symbols_of(lines)
    config = to_config(options, symbols, TUPE, head, int(vocabulary_version(symbols)))
    (folder / "config.json").write_text(json.dumps({**config, **changed}))
    save_file(to_transformers(model, TUPE, head), folder / "model.safetensors")
    (folder / "dict.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


def change_config(folder, **changed):
    """Change fields of a folder's config.json; those that become None are taken out."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changed}
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
