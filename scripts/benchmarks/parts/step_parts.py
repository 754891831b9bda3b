"""The operators of a training step, summed up by what they are for."""

from typing import Dict

# an operator belongs to the first part that names it, by how its name begins
PARTS = {
    "products of linear layers, LM head": ("aten::addmm", "aten::mm"),
    "products of attention": ("aten::bmm", "aten::baddbmm", "aten::_scaled_dot_product"),
    "softmax": ("aten::_softmax",),
    "dropout": (
        "aten::threshold_backward", "aten::native_dropout", "aten::bernoulli_", "_KeepMask",
        # their own time is numpy's, which draws the random numbers, and Python's
        "_ChunkedAttention",
    ),
    "LayerNorm": ("aten::native_layer_norm",),
    "GELU": ("aten::gelu",),
    "loss": ("aten::_log_softmax", "aten::nll_loss"),
}  # fmt: skip
SUMS = ("aten::add", "aten::sub", "aten::mul", "aten::div", "aten::copy_", "aten::fill_",
        "aten::sum", "aten::addcmul_", "aten::where", "aten::index", "aten::embedding",
        "aten::zero_", "aten::masked_fill", "aten::_to_copy")  # fmt: skip
ADAM, OF_ATTENTION, OTHERS = "Adam", "sums and copies of attention", "sums, copies, embedding"
REST = "the rest"


def by_part(profile, steps: int) -> Dict[str, float]:
    """Seconds of a step in the operators themselves, without those that they call."""
    names = (ADAM, *PARTS, OF_ATTENTION, OTHERS, REST)
    found = dict.fromkeys(names, 0.0)
    for event in profile.events():
        found[_part(event)] += event.self_cpu_time_total / 1e6 / steps
    return found


def _part(event) -> str:
    around, parent = [], event
    while parent is not None:
        around.append(parent.name)
        parent = parent.cpu_parent
    if any(name.startswith("Optimizer.") for name in around):
        return ADAM
    for part, words in PARTS.items():
        if event.name.startswith(words):
            return part
    if any("ChunkedAttention" in name or "scaled_dot_product" in name for name in around):
        return OF_ATTENTION
    return OTHERS if event.name.startswith(SUMS) else REST
