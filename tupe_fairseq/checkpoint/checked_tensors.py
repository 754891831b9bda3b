"""The tensors of a checkpoint: that they are weights, and of the sizes that its options say.

Checked before a model is built, which the options of a file could otherwise make any size.
"""

import re
from typing import Any

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.restricted_load import CheckpointError


class NotFinite(CheckpointError):
    """Weights with which every output would be NaN."""


ENCODER = "encoder.sentence_encoder."
VOCABULARY = "encoder.vocabulary_version"
EMBEDDING = ENCODER + "embed_tokens.weight"
#: the name of the head for tags, unless --classification-head-name gives another
TAGGING_HEAD = "token_tagging_head"
_LAYER = re.compile(re.escape(ENCODER) + r"layers\.(\d+)\.")
_HEAD = re.compile(r"(classification_heads\.[^.]*)\.")
# buffers that say which format, positions or vocabulary a file has; the longest has JSON in it
_VERSION = re.compile(r"(.*[._])?version")
_LONGEST_VERSION = 600


def tensors_in(state: dict[str, Any], path: str) -> dict[str, Tensor]:
    """The state dict of a checkpoint.

    Args:
        state (dict): the checkpoint.
        path (str): its name, for messages.
    Raises:
        CheckpointError: if there is none, or if an entry is not a tensor of real numbers; the
            message names it.
    """
    tensors = state.get("model")
    if not isinstance(tensors, dict):
        raise CheckpointError(f"{path} holds no model, so it is not a checkpoint to load")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise CheckpointError(
                f"{path}: {name!r} in its model is a {type(tensor).__name__}; expected are names "
                "of tensors"
            )
        problem = _problem(name, tensor)
        if problem:
            raise CheckpointError(f"{path}: the tensor {name} {problem}")
    return tensors


def _problem(name: str, tensor: Tensor) -> str:
    if _VERSION.fullmatch(name):
        is_short = tensor.numel() <= _LONGEST_VERSION and not tensor.is_complex()
        is_one = name != VOCABULARY or tensor.numel() == 1
        return "" if is_short and is_one else f"has the shape {list(tensor.shape)}, no version's"
    if not tensor.is_floating_point():
        return f"is {tensor.dtype}; weights are floating-point numbers"
    if tensor.dim() == 0:
        return "is a single number; weights are vectors and matrices"
    if tensor.numel() == 0:
        return f"has the shape {list(tensor.shape)}, so it is empty"
    return ""


def check_finite(tensors: dict[str, Tensor], path: str) -> None:
    """Refuse weights that are NaN or infinite.

    Raises:
        NotFinite: if there are some; the message names the first tensor.
    """
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise NotFinite(
                f"{path}: the tensor {name} holds NaN or infinity: its training diverged, or the "
                "file is damaged"
            )


def check_sizes(options: dict[str, Any], tensors: dict[str, Tensor], path: str) -> None:
    """Refuse options that would build a model of other sizes than the tensors have.

    Args:
        options (dict): those of tupe_roberta, each checked by itself.
        tensors (dict): the state dict, under the names of tupe_roberta.
        path (str): the checkpoint's name, for messages.
    Raises:
        CheckpointError: if a size is missing or differs.
    """
    embedding = tensors.get(EMBEDDING)
    if embedding is None or embedding.dim() != 2:
        raise CheckpointError(f"{path} holds no word embedding")
    layers = {match.group(1) for match in map(_LAYER.match, tensors) if match}
    sizes = {"encoder_layers": len(layers), "encoder_embed_dim": embedding.size(1)}
    inner = tensors.get(ENCODER + "layers.0.fc1.weight")
    if inner is not None:
        sizes["encoder_ffn_embed_dim"] = inner.size(0)
    for name, size in sizes.items():
        if options.get(name) != size:
            raise CheckpointError(
                f"{path} is refused: its option {name} is {options.get(name)}, but its tensors "
                f"have {size}"
            )
    tagging = options.get("classification_head_name", TAGGING_HEAD)
    is_tagging = options.get("task") == "token_tagging"
    _check_heads(tensors, embedding.size(1), {TAGGING_HEAD, tagging if is_tagging else ""}, path)
    heads = options.get("encoder_attention_heads")
    if heads is None or sizes["encoder_embed_dim"] % heads:
        raise CheckpointError(
            f"{path} is refused: its option encoder_attention_heads is {heads}, which does not "
            f"divide the width {sizes['encoder_embed_dim']}"
        )


def _check_heads(tensors: dict[str, Tensor], width: int, tagging: set[str], path: str) -> None:
    """Each classification head is made by two shapes, which must fit, or one for tags by one."""
    for name in {match.group(1) for match in map(_HEAD.match, tensors) if match}:
        dense, out = (tensors.get(f"{name}.{part}.weight") for part in ("dense", "out_proj"))
        if dense is None and out is None:
            continue  # nothing is made by it, and loading names what is missing
        if dense is None and name.split(".")[1] in tagging:
            if out.dim() != 2 or out.size(1) != width:
                raise CheckpointError(
                    f"{path} is refused: {name}.out_proj.weight has the shape {list(out.shape)}, "
                    f"of no head for the width {width}"
                )
            continue
        shapes = [None if tensor is None else list(tensor.shape) for tensor in (dense, out)]
        fits = dense is not None and out is not None and dense.dim() == out.dim() == 2
        if not fits or dense.size(1) != width or out.size(1) != dense.size(0):
            raise CheckpointError(
                f"{path} is refused: {name}.dense.weight and .out_proj.weight have the shapes "
                f"{shapes[0]} and {shapes[1]}, of no head for the width {width}"
            )
