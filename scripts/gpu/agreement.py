"""Every attention implementation beside eager in float64, on the device, and its dropout."""

import argparse
import functools
import itertools
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, Tuple

import torch
from attending import Request, distance
from kept_results import KeptResults, is_interpreted, machine

from tupe_fairseq.attention import IMPLEMENTATIONS

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LAYOUTS = ("full", "padded", "packed")
FACTORS = ", in factors"
# batch, length, heads, size of a head: lengths around tiles, and those at which others gave NaN
SHAPES = [
    *((4, seq_len, 12, 64) for seq_len in (1, 17, 64, 128, 192, 320, 500, 512, 1024)),
    (4, 65, 3, 40),
    (4, 129, 2, 128),
    (2, 2048, 4, 64),
]
TOY_SHAPES = [(2, 17, 2, 8)]
# In eps of the dtype, of the norm.  A rounding moves a number by 0.3 eps in the mean square; those
# of the bias (up to 8 from its row's maximum), the probabilities and the result add up at random:
# 2 eps, twice as much in a gradient.  In float32 the sums over L keys round as well, at random.
OUT, GRADS = 4, 8
DROPOUT = 0.25


def measured(request: Request, name: str) -> Dict[str, Any]:
    """Errors in eps; beside them eager's in the same dtype."""
    reason = request.refusal(name)
    if reason is not None:
        return {"refused": reason}
    dtype, length = request.qkv.dtype, request.seq_len
    exact = request.compared(request.answer("eager", torch.float64))
    answer = request.compared(request.answer(name))
    more = length**0.5 if dtype == torch.float32 else 1.0
    eps = torch.finfo(dtype).eps
    errors = [distance(a, b) / eps for a, b in zip(answer, exact)]
    # where a softmax has one key, or two that are far apart, a gradient is a difference of equals
    is_cancelled = length == 1
    good = errors[0] <= OUT * more and (
        is_cancelled or all(error <= GRADS * more for error in errors[1:])
    )
    finite = all(x.isfinite().all().item() for x in answer)
    return {"errors": errors, "bounds": [OUT * more, GRADS * more], "ok": good and finite}


def dropped(request: Request, name: str, runs: int) -> Dict[str, Any]:
    """Whether dropout keeps the mean, and the gradients are those of what it kept.

    The mean of some runs is as far from the output without dropout as chance has it, in standard
    deviations; out is linear in v, so that v . grad_v is out . weights if the backward pass drops
    the same; and a small step along another direction changes the loss as the gradient says.
    """
    reason = request.refusal(name)
    if reason is not None:
        return {"refused": reason}
    exact = request.out("eager", request.qkv.double(), request.bias.double())
    q, k, v = request.qkv.double().unbind(-3)
    bias = request.as_bias(request.bias.double()).whole()
    probs = torch.softmax(torch.einsum("bqhd,bkhd->bhqk", q, k) * request.scaling + bias, -1)
    variance = torch.einsum("bhqk,bkhd->bqhd", probs**2, v**2) * DROPOUT / (1 - DROPOUT) / runs
    mean = torch.zeros_like(exact)
    with torch.no_grad():
        for seed in range(runs):
            torch.manual_seed(seed)
            mean += request.out(name, request.qkv, request.bias, DROPOUT).double() / runs
    z = ((mean - exact) / variance.sqrt()).square().mean().sqrt().item()

    torch.manual_seed(7)
    answer = request.answer(name, dropout=DROPOUT)
    euler = (request.qkv * answer.grad_qkv).unbind(-3)[2].double().sum().item()
    loss = (answer.out * request.weights).double().sum().item()
    step = 2.0**-6
    along = [torch.sin(torch.arange(x.numel()).to(x)).view(x.shape) for x in answer[1:]]

    def loss_at(sign):
        torch.manual_seed(7)
        moved = [x + sign * step * by for x, by in zip((request.qkv, request.bias), along)]
        with torch.no_grad():
            return (request.out(name, *moved, DROPOUT) * request.weights).double().sum().item()

    slope = (loss_at(1) - loss_at(-1)) / (2 * step)
    expected = sum((a * b).double().sum().item() for a, b in zip(answer[1:], along))
    size = answer.grad_qkv.norm().item() + answer.grad_bias.norm().item()
    # the elements of a head share a mask, and the runs are few: three standard deviations or more
    ok = (
        abs(z - 1) < 0.2 and abs(euler - loss) < 1e-4 * size and abs(slope - expected) < 0.02 * size
    )
    return {"deviations": z, "v": [euler, loss], "slope": [slope, expected], "ok": ok}


def cases(args) -> Iterator[Tuple[str, Any]]:
    shapes = TOY_SHAPES if args.toy else SHAPES
    dtypes = {"fp32": torch.float32} if is_interpreted() else DTYPES
    kinds = [(layout, False) for layout in LAYOUTS]
    kinds += [(layout, True) for layout in (LAYOUTS[-1:] if args.toy else LAYOUTS)]
    for shape, (dtype_name, dtype), kind in itertools.product(shapes, dtypes.items(), kinds):
        batch, seq_len, heads, head_dim = shape
        layout, in_factors = kind
        label = f"B{batch} T{seq_len} {heads}x{head_dim} {dtype_name} {layout}"
        request = functools.lru_cache(maxsize=None)(
            functools.partial(Request, *shape, dtype, layout, args.device, in_factors)
        )
        for name in IMPLEMENTATIONS:
            if in_factors and name != "triton":  # the only one here that does not multiply them out
                continue
            yield (
                f"{label} {name}{FACTORS if in_factors else ''}",
                lambda request=request, name=name: measured(request(), name),
            )
    sizes, runs = ((1, 16, 2, 8), 24) if args.toy else ((4, 192, 4, 64), 64)
    dropping = [(name, False) for name in IMPLEMENTATIONS]
    for name, in_factors in dropping if args.toy else [*dropping, ("triton", True)]:
        request = functools.partial(
            Request, *sizes, torch.float32, device=args.device, in_factors=in_factors
        )
        yield (
            f"dropout {DROPOUT:g} {name}{FACTORS if in_factors else ''}",
            lambda request=request, name=name: dropped(request(), name, runs),
        )


def said(result: Dict[str, Any]) -> str:
    if "refused" in result:
        return f"not served: {result['refused']}"
    if "failed" in result:
        return f"FAILED: {result['failed']}"
    verdict = "" if result["ok"] else "  FAILED"
    if "errors" in result:
        return "  ".join(f"{error:8.2f}" for error in result["errors"]) + verdict
    named = ((key, *result[key]) for key in ("v", "slope"))
    pairs = "; ".join(f"{key} {a:.4g}, expected {b:.4g}" for key, a, b in named)
    return f"mean off by {result['deviations']:.3f} standard deviations; {pairs}{verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--toy", action="store_true")
    args = parser.parse_args()
    kept = KeptResults(
        args.out / "agreement.json", machine(args.device, toy=args.toy), args.seconds
    )
    print("errors of outputs, gradient of qkv and of the bias (in factors: of those of queries, of")
    print("those of keys, and by distance), in eps of the dtype", flush=True)
    failures = 0

    def say(name, result):
        nonlocal failures
        failures += not result.get("ok", "refused" in result)
        print(f"{name:<52}{said(result)}", flush=True)

    kept.run(cases(args), say)
    print(f"agreement: {len(kept.cases)} cases, {failures} FAILED")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
