"""Long sequences, large buckets and short dtypes, for every position encoding: near float64."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO))

from tupe_fairseq import TupeConfig, TupeEncoder  # noqa: E402
from tupe_fairseq.options import POSITION_ENCODINGS  # noqa: E402
from tupe_fairseq.position import CATALOGUE  # noqa: E402

HEADS, HEAD_DIM, LAYERS = 2, 4, 2
DIM = HEADS * HEAD_DIM
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# A rounding moves a number by up to eps / 2, 0.3 eps in the mean square; some 12 in each of two
# layers add up at random: 0.3 * 24 ** 0.5 = 1.4 eps.  A gradient has those of three passes, and the
# means that LayerNorm and softmax subtract double them: 5 eps.  Sums over T tokens, in float32 at
# least, round T times more, at random again; that counts in float32 alone.  But torch's LayerNorm
# on the CPU sums the gradients of its own parameters in their dtype: N partial sums, as large as
# the result / 2 ** 0.5 in the mean square, are each rounded, which adds 0.2 * N ** 0.5 eps; twice
# as much is allowed, as these few sums can end nearer to zero than they came on their way.
_OUT, _GRADS, _SUMS = 2, 5, 0.4


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/stress_numbers.py",
        description="Compare an encoder in fp32, bf16 and fp16 with the same numbers in float64, "
        "outputs and gradients, those of LayerNorm apart: all position encodings, at a length of "
        "which others test only the beginning, with as many buckets. Errors are in eps of the "
        "dtype, relative to the norm.",
        epilog="example: scripts/stress_numbers.py --length 2048 --only tupe,alibi",
    )
    add = parser.add_argument
    add("--length", type=int, default=256, metavar="T", help="tokens; default %(default)s")
    add("--max-rel-pos", type=int, metavar="N", help="default: the length")
    add("--rel-pos-bins", type=int, default=128, metavar="N", help="default %(default)s")
    add("--only", metavar="LIST", help=f"comma-separated, of {', '.join(CATALOGUE)}")
    add("--scale", type=float, default=0.5, metavar="S", help="of parameters; default %(default)s")
    return parser


def main() -> None:
    args = get_parser().parse_args()
    names = list(CATALOGUE) if args.only is None else args.only.split(",")
    for name in names:
        if name not in CATALOGUE:
            sys.exit(
                f"{get_parser().prog}: error: --only {name}: not one of {', '.join(CATALOGUE)}"
            )
    print(
        f"{'position encoding':<28}{'dtype':<7}{'outputs':>9}{'gradients':>11}"
        f"{'LayerNorm':>11}{'seconds':>9}"
    )
    failures = 0
    for name in names:
        for options in _options(name, args):
            exact = _encoder(name, options, args, torch.float64)
            expected = None
            for dtype_name, dtype in DTYPES.items():
                begun = time.monotonic()
                label = f"{name}-rel_pos" if "rel_pos" in options else name
                line = f"{label:<28}{dtype_name:<7}"
                encoder = _encoder(name, options, args, dtype)
                for ours, theirs in zip(exact.parameters(), encoder.parameters()):
                    ours.data.copy_(theirs)
                try:
                    found = _answer(encoder, args.length)
                except RuntimeError as error:
                    if "not implemented for 'Half'" not in str(error):
                        raise
                    print(f"{line}skipped: this torch has no kernel: {error}")
                    continue
                expected = _answer(exact, args.length)
                eps = torch.finfo(dtype).eps
                out, grads, norms = (_distance(a, b) / eps for a, b in zip(found, expected))
                more = args.length**0.5 if dtype == torch.float32 else 1.0
                summed = _GRADS * more + _SUMS * len(found[0]) ** 0.5
                # NaN is not below a bound
                is_good = out <= _OUT * more and grads <= _GRADS * more and norms <= summed
                failures += not is_good
                seconds = time.monotonic() - begun
                verdict = "" if is_good else "  FAILED"
                print(
                    f"{line}{out:>9.2f}{grads:>11.2f}{norms:>11.2f}{seconds:>9.1f}{verdict}",
                    flush=True,
                )
    print(
        f"{failures} not within {_OUT} eps (outputs), {_GRADS} eps (gradients) and, for those of "
        f"LayerNorm, {_SUMS} eps for the root of the number of tokens more; fp32: the root of the "
        "length times as much"
    )
    sys.exit(failures > 0)


def _options(name: str, args: argparse.Namespace) -> tuple[dict[str, Any], ...]:
    takes, far = POSITION_ENCODINGS[name], args.max_rel_pos or args.length
    if "rel_pos" in takes:
        buckets = {"rel_pos": True, "rel_pos_buckets": args.rel_pos_bins, "max_rel_pos": far}
        return {}, buckets
    return ({"max_rel_pos": far},) if "max_rel_pos" in takes else ({},)


def _encoder(name: str, options: dict[str, Any], args, dtype: torch.dtype) -> TupeEncoder:
    config = TupeConfig(
        embed_dim=DIM, num_heads=HEADS, num_layers=LAYERS, ffn_embed_dim=2 * DIM,
        max_positions=args.length, dropout=0.0, attention_dropout=0.0, position_encoding=name,
        attn_impl="eager" if dtype == torch.float64 else "auto", **options,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(1)
    encoder = TupeEncoder(config).to(dtype)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(args.scale * torch.randn(parameter.shape, generator=generator))
    return encoder


def _answer(encoder: TupeEncoder, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of a whole sequence, a short one and padding alone: outputs at tokens, and all gradients.

    The last are those of LayerNorm's parameters.
    """
    generator = torch.Generator().manual_seed(2)
    dtype = next(encoder.parameters()).dtype
    padding = torch.arange(length) >= torch.tensor([[length], [length // 3], [0]])
    # 16 bits in any case, so that all begin with the same numbers
    x = torch.randn(3, length, DIM, generator=generator).half().bfloat16().to(dtype)
    weights = torch.randn(3, length, DIM, generator=generator).half().bfloat16().to(dtype)
    out = encoder(x.requires_grad_(), padding)
    encoder.zero_grad()
    (out * weights)[~padding].sum().backward()
    others, norms = [x.grad], []
    for name, parameter in encoder.named_parameters():
        (norms if "layer_norm" in name else others).append(parameter.grad)
    return (out[~padding].double(), *(_joined(grads) for grads in (others, norms)))


def _joined(grads: list[Tensor]) -> Tensor:
    return torch.cat([grad.double().flatten() for grad in grads])


def _distance(actual: Tensor, expected: Tensor) -> float:
    return ((actual - expected).norm() / expected.norm()).item()


if __name__ == "__main__":
    main()
