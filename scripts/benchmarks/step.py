"""Where the time of a training step on the CPU goes, and what some ways to do less would save.

    python scripts/benchmarks/step.py                          # base size, B4 T512 and B16 T128
    python scripts/benchmarks/step.py --layers 4 --rounds 5 --only savings

The table by part is from torch's profiler and is of use on an idle machine alone; the savings are
CPU time of one thread, in alternation.
"""

import argparse
import json
import logging
import statistics
import sys
import time
from pathlib import Path

import torch

logging.disable(logging.WARNING)  # fairseq and our code log on every import and every model

from parts.models import SIZES, Trainer, build, masked_batch  # noqa: E402
from parts.report import machine  # noqa: E402
from parts.savings import savings  # noqa: E402
from parts.step_parts import by_part  # noqa: E402


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--output-dir", type=Path, default=Path("step-benchmark"), help="default: step-benchmark")
    add("--layers", type=int, default=12, help="of 768; default 12")
    add("--width", type=int, default=768, help="a multiple of 64; default 768")
    add("--lengths", default="512,128", help="comma-separated; default 512,128")
    add("--tokens", type=int, default=2048, help="of a batch; default 2048")
    add("--steps", type=int, default=3, help="that are profiled, after two others; default 3")
    add("--rounds", type=int, default=5, help="of the savings; default 5")
    add("--only", choices=("parts", "savings"), help="default: both")
    options = parser.parse_args(arguments)
    if options.width < 64 or options.width % 64:
        parser.error(f"--width ({options.width}) must be a multiple of 64")
    for name in ("layers", "tokens", "steps", "rounds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} ({getattr(options, name)}) must be at least 1")
    try:
        options.lengths = [int(word) for word in options.lengths.split(",")]
    except ValueError:
        parser.error(f"--lengths {options.lengths} are not numbers with commas between")
    return options


def parts_of(options, seq_len, kind):
    """Seconds of a step by part, and its CPU time as a share of the wall clock's."""
    device = torch.device("cpu")
    trainer = Trainer(build(kind, "measured", seq_len, device))
    batch = masked_batch(max(options.tokens // seq_len, 1), seq_len, 0.0, device)
    for _ in range(2):
        trainer.masked_lm(batch)
    wall, cpu = time.perf_counter(), time.process_time()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(options.steps):
            trainer.masked_lm(batch)
    share = (time.process_time() - cpu) / (time.perf_counter() - wall)
    return by_part(profile, options.steps), share


def main(arguments=None):
    options = parse(arguments)
    torch.set_num_threads(1)
    SIZES["measured"] = {
        "encoder_layers": options.layers,
        "encoder_embed_dim": options.width,
        "encoder_attention_heads": options.width // 64,
    }
    results = {"machine": machine(torch.device("cpu")), "layers": options.layers, "cases": {}}
    print(results["machine"])
    for seq_len in options.lengths:
        case = f"B{max(options.tokens // seq_len, 1)} T{seq_len}"
        found = results["cases"][case] = {}
        if options.only != "savings":
            for kind in ("stock", "tupe"):
                parts, share = parts_of(options, seq_len, kind)
                found[kind] = {"seconds": parts, "cpu_share": share}
                total = sum(parts.values())
                print(f"\n{case}, {kind}: {total:.2f} s a step, {share:.0%} of it on a core")
                for name, seconds in parts.items():
                    print(f"  {name:<36}{seconds:8.3f} s  {seconds / total:6.1%}")
        if options.only != "parts":
            found["savings"] = {}
            print(f"\n{case}: CPU seconds, medians of {options.rounds} rounds in alternation")
            for name, seconds in savings(options, seq_len).items():
                medians = {key: statistics.median(values) for key, values in seconds.items()}
                found["savings"][name] = seconds
                base = next(iter(medians.values()))
                said = ", ".join(
                    f"{key} {value:.3f} ({value / base:.3f})" for key, value in medians.items()
                )
                print(f"  {name}: {said}", flush=True)
        options.output_dir.mkdir(parents=True, exist_ok=True)
        path = options.output_dir / "results.json"
        path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
