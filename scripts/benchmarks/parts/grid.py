"""Cost against length and batch, and the whole grid."""

import gc
import itertools
from typing import Callable, Dict, Iterator, List

import torch

from parts.models import Trainer, build, infer, masked_batch
from parts.operators import FLOOR, STOCK, Shape, operators, saved_by_attention
from parts.rows import Row
from parts.timing import compare, kernel_names

LENGTHS = [128, 256, 512, 1024, 2048]
BATCHES = [1, 2, 4, 8, 16]
BATCH_LENGTH = 256  # of the curve against batch


def lengths(longest: int) -> List[int]:
    return [seq_len for seq_len in LENGTHS if seq_len <= longest]


def curves(device: torch.device, dtype, options, say) -> Dict:
    """Attention, forward and backward, dropout 0.1: against length at B1 and batch at T256."""
    batches = [batch for batch in BATCHES if batch <= options.largest]
    length = min(BATCH_LENGTH, options.longest)
    shapes = {
        "length": [Shape(1, seq_len, 0.1, dtype=dtype) for seq_len in lengths(options.longest)],
        "batch": [Shape(batch, length, 0.1, dtype=dtype) for batch in batches],
    }
    found = {}
    for axis, cases in shapes.items():
        found[axis] = []
        for shape in cases:
            say(f"attention, {shape}")
            samples = compare(operators(shape, device), options.rounds)
            found[axis].append(
                {
                    "x": shape.seq_len if axis == "length" else shape.batch,
                    **{
                        name: {"median_s": sample.median, "peak_bytes": sample.peak_bytes}
                        for name, sample in samples.items()
                    },
                }
            )
            gc.collect()
    return found


def saved(device: torch.device, longest: int) -> List[dict]:
    """Bytes kept for backward by one layer's attention, B4, dropout 0.1."""
    names = [STOCK, "eager", "chunked"]
    if device.type != "cpu":
        return []
    return [
        {"T": seq_len, **{name: saved_by_attention(name, 4, seq_len, 0.1) for name in names}}
        for seq_len in lengths(min(longest, 1024))
    ]


def full(device: torch.device, options, sizes: List[str], say: Callable) -> Iterator[Row]:
    """Every combination of the operator, then of the whole step; hours on a small machine."""
    dtypes = (torch.float32, torch.bfloat16)
    rounds, all_lengths = options.rounds, lengths(options.longest)
    axes = (all_lengths, (0.0, 0.25), (0.0, 0.1), dtypes, (True, False))
    for seq_len, padding, dropout, dtype, training in itertools.product(*axes):
        if dropout and not training:
            continue
        shape = Shape(4, seq_len, dropout, padding, dtype, training)
        say(f"attention, {shape}")
        calls = operators(shape, device)
        ours = "chunked" if "chunked" in calls else "sdpa"
        yield Row(f"attention, {shape}", compare(calls, rounds), FLOOR, ours)
        gc.collect()
    axes = (sizes, all_lengths, (0.0, 0.25), (0.0, 0.1), dtypes, (True, False))
    for size, seq_len, padding, dropout, dtype, training in itertools.product(*axes):
        if not dropout or training:
            yield _whole_step(device, rounds, say, size, seq_len, padding, dropout, dtype, training)
            gc.collect()


def _whole_step(device, rounds, say, size, seq_len, padding, dropout, dtype, training) -> Row:
    mode = "training step" if training else "inference"
    batch = max(2048 // seq_len, 1)
    parts = [mode, size, f"B{batch} T{seq_len}", f"dropout {dropout:g}"]
    title = ", ".join([*parts, f"{padding:.0%} padding", str(dtype).split(".")[-1]])
    say(title)
    data = masked_batch(batch, seq_len, padding, device)
    dropouts = {"dropout": dropout, "attention_dropout": dropout}
    wanted = {STOCK: ("stock", dropouts), "no position bias": ("no bias", dropouts)}
    ours = "chunked" if device.type == "cpu" else "sdpa"
    names = ["auto", "eager", "sdpa", ours]
    for name in names:
        wanted[f"tupe, {name}"] = ("tupe", {**dropouts, "attn_impl": name})
    if padding:
        wanted["tupe --unpad"] = ("tupe", {**dropouts, "unpad": True})
    calls = {}
    for name, (kind, options) in wanted.items():
        model = build(kind, size, seq_len, device, dtype, **options)
        if training:
            trainer = Trainer(model)
            calls[name] = lambda trainer=trainer: trainer.masked_lm(data)
        else:
            calls[name] = lambda model=model: infer(model, data)
    return Row(title, compare(calls, rounds), STOCK, "tupe, auto")


def kernels(device: torch.device) -> Dict[str, List[str]]:
    """Which GPU kernels each column runs, with and without padding."""
    if device.type != "cuda":
        return {}
    found = {}
    for padding in (0.0, 0.25):
        shape = Shape(32, 512, 0.1, padding, torch.bfloat16)
        for name, call in operators(shape, device).items():
            call()
            found[f"{name}, {shape}"] = kernel_names(call)
    return found
