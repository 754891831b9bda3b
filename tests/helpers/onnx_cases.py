"""What the tests of ONNX files share."""

import importlib.util

import pytest
import torch

from tupe_fairseq import TupeConfig

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
NEEDED = ("transformers", "safetensors", "onnx", "onnxscript", "onnxruntime")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
needs_onnx = pytest.mark.skipif(
    bool(MISSING) or VERSION < (2, 7),
    reason=f"needs torch 2.7 and {', '.join(MISSING) or 'nothing else'}",
)
SMALL = {
    "embed_dim": 12, "num_heads": 2, "num_layers": 1, "ffn_embed_dim": 16, "max_positions": 24,
}  # fmt: skip


def folder(path, fields=None, **options):
    """A model folder with random weights; ``fields`` are further arguments of write_folder."""
    from helpers.folders import write_folder  # which needs safetensors

    torch.manual_seed(1)
    write_folder(path, TupeConfig(**SMALL, **options), **(fields or {}))
    return str(path)
