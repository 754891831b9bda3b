"""Attention alone, at the lengths and batches that are compared."""

from typing import Callable, List

import torch

from parts.operators import FLOOR, STOCK, Shape, operators
from parts.rows import Case, Row
from parts.timing import compare

# what attention without dropout is to take at most on a GPU, of FlashAttention-2 without a bias
TARGET = 1.15
# as many tokens in each batch, but for the shortest sequences
GPU_SHAPES = [(32, 512), (32, 128), (8, 2048), (2, 8192)]
#: to try a benchmark, not to measure: Triton's interpreter takes seconds for it
TOY = {"heads": 2, "head_dim": 8}
TOY_SHAPES = [(2, 32)]


def operator_case(
    shape: Shape, device: torch.device, rounds: int, say: Callable[[str], None]
) -> Case:
    """Our implementations, and stock RoBERTa's, beside torch's fused kernel without a bias."""
    title = f"attention, {shape}"

    def measure() -> List[Row]:
        say(title)
        calls = operators(shape, device)
        ours = "chunked" if "chunked" in calls else "sdpa"
        base = STOCK if shape.dropout else FLOOR
        is_target = device.type == "cuda" and not shape.dropout
        samples = compare(calls, rounds)
        return [Row(title, samples, base, ours, target=TARGET if is_target else None)]

    return Case(title, measure)


def operator_cases(
    device: torch.device, dtype: torch.dtype, longest: int, rounds: int, say, toy: bool
) -> List[Case]:
    """With and without dropout, at the lengths up to the longest."""
    shapes = [
        Shape(batch, seq_len, dropout, dtype=dtype, **(TOY if toy else {}))
        for batch, seq_len in (TOY_SHAPES if toy else GPU_SHAPES)
        if seq_len <= longest
        for dropout in (0.0, 0.1)
    ]
    return [operator_case(shape, device, rounds, say) for shape in shapes]
