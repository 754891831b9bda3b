"""Long sequences on the CPU: a position bias in factors against a whole one.

    python scripts/benchmarks/long.py                      # some 15 minutes on 2 cores
    python scripts/benchmarks/long.py --only memory        # the training steps alone

Attention alone, forward and backward, B1 and no dropout, against torch's fused kernel without a
bias, in alternating rounds; then the peak memory of a training step of 4 layers of 256 with 4
heads, B1, beyond parameters, gradients and optimizer state, each in a process of its own.  Compare
only ratios from one run on an otherwise idle machine.  Needs torch 2.1, and the packages of the
extra "bench".
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table

from parts.timing import PeakMemory, compare, ratio, spread
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.attention import IMPLEMENTATIONS, Bias, choice, split_qkv

HEAD_DIM = 64
FLOOR = "unbiased fused kernel"
FACTORS, WHOLE = "in factors", "whole"
LAYERS, WIDTH, HEADS = 4, 256, 4


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--output-dir", type=Path, default=Path("long-benchmark"), help="default: long-benchmark")
    add("--only", choices=("time", "memory"), help="one part")
    add("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096], help="of attention")
    add("--heads", type=int, default=4, help="of attention alone; default 4")
    add("--steps", type=int, nargs=2, default=[2048, 8192], help="two lengths of training steps")
    add("--rounds", type=int, default=5, help="rounds measured, after a warm-up; default 5")
    add("--threads", type=int, help="CPU threads; default: torch's")
    add("--step", nargs=2, metavar=("KIND", "LENGTH"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds ({options.rounds}) must be at least 1")
    for name, lengths in (("--lengths", options.lengths), ("--steps", options.steps)):
        if min(lengths) < 1:
            parser.error(f"{name} ({min(lengths)}) must be at least 1")
    if IMPLEMENTATIONS["sdpa"].refusal(torch.zeros(1, 1, 1, 1), None, None):
        parser.error(f"the kernel to compare with needs torch 2.1; this is {torch.__version__}")
    return options


def operators(seq_len: int, heads: int):
    """Column name -> a call that attends forward and backward once."""
    qkv = torch.randn(1, seq_len, 3, heads, HEAD_DIM, requires_grad=True)
    grad = torch.randn(1, seq_len, heads, HEAD_DIM)
    # as TUPE-R with an untied [CLS] has them: two columns more than a head is wide
    products = (0.1 * torch.randn(heads, seq_len, HEAD_DIM + 2) for _ in range(2))
    distances = 0.1 * torch.randn(heads, 2 * seq_len - 1)
    factors = Bias.of_factors(*products, distances, spares_first=True)
    whole = Bias(factors.whole().requires_grad_())
    factors.values.requires_grad_()

    def fused():
        q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
        out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        torch.autograd.grad(out, (qkv,), grad)

    def ours(bias):
        options = {"scaling": (2 * HEAD_DIM) ** -0.5, "dropout": 0.0}
        out = IMPLEMENTATIONS["chunked"].attend(*split_qkv(qkv), bias, None, **options)
        torch.autograd.grad(out, (qkv, bias.values), grad)

    return {FLOOR: fused, FACTORS: lambda: ours(factors), WHOLE: lambda: ours(whole)}


def step(kind: str, seq_len: int) -> int:
    """Bytes of a training step at its peak, beyond what is there between two steps."""
    choice.MANY_SCORES = 0 if kind == FACTORS else sys.maxsize  # a step has gradients
    torch.manual_seed(1)
    config = TupeConfig(
        embed_dim=WIDTH, num_heads=HEADS, num_layers=LAYERS, ffn_embed_dim=4 * WIDTH,
        max_positions=seq_len, rel_pos=True,
    )  # fmt: skip
    encoder = TupeEncoder(config).train()
    optimizer = torch.optim.Adam(encoder.parameters())
    x = torch.randn(1, seq_len, WIDTH)

    def update():
        # not set to None: gradients stay, as parameters do
        optimizer.zero_grad(set_to_none=False)
        encoder(x).square().mean().backward()
        optimizer.step()

    update()
    with PeakMemory() as memory:
        update()
    return memory.bytes


def measured_step(kind: str, seq_len: int, threads: int) -> int:
    words = [sys.executable, __file__, "--step", kind, str(seq_len), "--threads", str(threads)]
    process = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return int(process.stdout.split()[-1])


def show(console, results):
    if "attention" in results:
        table = Table(title=f"attention, B1, {results['heads']} heads, forward and backward")
        for heading in ("T", "", "median s", "ratio", "spread", "peak MiB"):
            table.add_column(heading, justify="right")
        for row in results["attention"]:
            for name, column in row["columns"].items():
                cells = (f"{column[key]:.3f}" for key in ("median_s", "ratio", "spread"))
                table.add_row(str(row["T"]), name, *cells, f"{column['peak_bytes'] / 2**20:.0f}")
        console.print(table)
    for case, bytes_ in results.get("step_bytes", {}).items():
        console.print(f"training step, {case}: {bytes_ / 2**20:.0f} MiB")
    for claim, value in results.get("memory_ratios", {}).items():
        console.print(f"{claim}: {value:.2f}")


def main(arguments=None):
    options = parse(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.step:
        print(step(options.step[0], int(options.step[1])))
        return 0
    console = Console()
    options.output_dir.mkdir(parents=True, exist_ok=True)
    results = {
        "torch": torch.__version__, "threads": torch.get_num_threads(), "heads": options.heads,
    }  # fmt: skip
    if options.only != "memory":
        results["attention"] = []
        for seq_len in options.lengths:
            samples = compare(operators(seq_len, options.heads), options.rounds)
            columns = {
                name: {
                    "median_s": sample.median,
                    "ratio": ratio(sample, samples[FLOOR]),
                    "spread": spread(sample, samples[FLOOR]),
                    "peak_bytes": sample.peak_bytes,
                }
                for name, sample in samples.items()
            }
            results["attention"].append({"T": seq_len, "columns": columns})
    if options.only != "time":
        short, long = options.steps
        cases = ((FACTORS, short), (FACTORS, long), (WHOLE, short), (WHOLE, long))
        found = {
            case: statistics.median(
                measured_step(*case, torch.get_num_threads()) for _ in range(options.rounds)
            )
            for case in cases
        }
        results["step_bytes"] = {f"{kind}, T {n}": value for (kind, n), value in found.items()}
        results["memory_ratios"] = {
            f"in factors, T {long} over T {short}": found[FACTORS, long] / found[FACTORS, short],
            f"T {long}, in factors over whole": found[FACTORS, long] / found[WHOLE, long],
        }
    show(console, results)
    path = options.output_dir / "results.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    console.print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
