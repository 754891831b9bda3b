"""Words per second of fairseq-train: stock roberta and tupe_roberta in alternation.

    python scripts/benchmarks/training.py                # on Python's own documentation
    python scripts/benchmarks/training.py --data DATA    # on a folder of tupe-prepare-pretrain
    python scripts/benchmarks/training.py --data DATA --isolate-documents

The last compares tupe_roberta with itself, on samples of whole lines: as they are, and with the
documents within them isolated.

Both train the same small RoBERTa (4 layers of 512, 8 heads) on the same batches for 100 updates,
and are compared by the words per second that fairseq logs.  Only the ratio is meaningful.  Needs
the packages of the extra "bench".
"""

import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

import tupe_fairseq

SCRIPTS = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
STOCK, TUPE = "roberta", "tupe_roberta --rel-pos"
ISOLATED = TUPE + " --isolate-documents"
LOG_INTERVAL = 10
DTYPES = {"fp32": [], "fp16": ["--fp16"], "bf16": ["--bf16"]}


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, help="prepared data; default: made from Python's documentation")
    add("--output-dir", type=Path, default=Path("training-benchmark"), help="logs and data")
    add("--updates", type=int, default=100, help="updates of each training; default 100")
    add("--rounds", type=int, default=2, help="number of trainings of each model; default 2")
    add("--tokens-per-sample", type=int, default=512, help="default 512")
    add("--batch-size", type=int, default=4, help="default 4")
    add("--layers", type=int, default=4, help="default 4")
    add("--threads", type=int, default=torch.get_num_threads(), help="default: torch's")
    add("--width", type=int, default=512, help="a multiple of 64; default 512")
    add("--dtype", choices=DTYPES, default="fp32", help="--fp16 or --bf16 of fairseq; default fp32")
    add("--tupe-flags", default="", help='further flags of tupe_roberta, such as "--unpad"')
    add(
        "--isolate-documents", action="store_true",
        help="compare tupe_roberta with this flag and without it, in place of roberta",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.isolate_documents and options.data is None:
        parser.error("--isolate-documents needs --data of a text that has empty lines")
    if options.updates < 2 * LOG_INTERVAL:
        parser.error(f"--updates ({options.updates}) must be at least {2 * LOG_INTERVAL}")
    if options.rounds < 1:
        parser.error(f"--rounds ({options.rounds}) must be at least 1")
    if options.dtype != "fp32" and not torch.cuda.is_available():
        parser.error(f"--dtype {options.dtype} needs a GPU; fairseq-train has no 16 bits for a CPU")
    if options.width < 64 or options.width % 64:
        parser.error(f"--width ({options.width}) must be a multiple of 64")
    if options.data is not None and not (options.data / "dict.txt").exists():
        parser.error(f"--data {options.data} has no dict.txt; tupe-prepare-pretrain makes one")
    return options


def run(words, log: Path, env=None) -> str:
    """Runs a command; its output goes to a file, and is returned."""
    words = [str(word) for word in words]
    with log.open("w") as file:
        process = subprocess.run(words, stdout=file, stderr=subprocess.STDOUT, env=env)
    if process.returncode:
        raise SystemExit(f"training.py: {shlex.join(words)} failed; see {log}")
    return log.read_text()


def make_data(folder: Path, tokens_per_sample: int) -> Path:
    """A small English data set out of Python's own documentation."""
    run([sys.executable, SCRIPTS / "build_corpus.py", folder], folder / "corpus.log")
    data = folder / "data-bin"
    run(
        [BIN / "tupe-prepare-pretrain", "--input", folder / "train.txt", "--output-dir", data]
        + ["--valid-input", folder / "valid.txt", "--test-fraction", 0, "--vocab-size", 2000]
        + ["--tokens-per-sample", tokens_per_sample],
        folder / "data.log",
    )
    return data


class Training(NamedTuple):
    """What the log of a training says."""

    words_per_second: float  # median of the intervals after the first
    losses: list[float]  # in bits, of each interval
    updates: int


def fairseq_train() -> list:
    """The console script, or what it calls where fairseq is on sys.path without being installed."""
    script = BIN / "fairseq-train"
    return [script] if script.exists() else [sys.executable, "-m", "fairseq_cli.train"]


def train(arch: str, data: Path, options, log: Path) -> Training:
    words = [
        *fairseq_train(), data, "--user-dir", tupe_fairseq.__path__[0],
        "--arch", *arch.split(), "--task", "masked_lm", "--criterion", "masked_lm",
        "--encoder-layers", options.layers, "--encoder-embed-dim", options.width,
        "--encoder-ffn-embed-dim", 4 * options.width,
        "--encoder-attention-heads", options.width // 64,
        "--sample-break-mode", "complete" if options.isolate_documents else "none",
        "--tokens-per-sample", options.tokens_per_sample,
        "--max-positions", options.tokens_per_sample, "--batch-size", options.batch_size,
        "--required-batch-size-multiple", 1, "--optimizer", "adam", "--lr", 1e-4,
        "--max-update", options.updates, "--log-format", "json", "--log-interval", LOG_INTERVAL,
        "--no-save", "--save-dir", log.parent, "--disable-validation", "--num-workers", 0,
        "--data-buffer-size", 0, "--distributed-world-size", 1, "--seed", 1,
        *DTYPES[options.dtype], *([] if torch.cuda.is_available() else ["--cpu"]),
        *(shlex.split(options.tupe_flags) if arch != STOCK else []),
    ]  # fmt: skip
    said = run(words, log, env={**os.environ, "OMP_NUM_THREADS": str(options.threads)})
    return read_log(said)


def read_log(said: str) -> Training:
    """What fairseq-train logs as JSON, a line an interval."""
    speeds, losses, updates = [], [], 0
    for line in said.splitlines():
        brace = line.find("{")
        if "train_inner" in line and '"wps"' in line and brace >= 0:
            stats = json.loads(line[brace:])
            speeds.append(float(stats["wps"]))
            losses.append(float(stats["loss"]))
            updates = int(stats["num_updates"])
    return Training(statistics.median(speeds[1:]), losses, updates)


def fault(training: Training, updates: int) -> str | None:
    """Why a training is not a sound one; None if it is."""
    if training.updates != updates:
        return f"{training.updates} updates, not {updates}"
    if not all(math.isfinite(loss) for loss in training.losses):
        return f"a loss that is not finite: {training.losses}"
    return None


def main(arguments=None):
    options = parse(arguments)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    console = Console()
    data = options.data or make_data(options.output_dir, options.tokens_per_sample)
    compared = (TUPE, ISOLATED) if options.isolate_documents else (STOCK, TUPE)
    turns = [(number, arch) for number in range(options.rounds) for arch in compared]
    speeds, losses = {arch: [] for arch in compared}, {arch: [] for arch in compared}
    for number, arch in track(turns, "training", console=console):
        name = "isolated" if arch == ISOLATED else arch.split()[0]
        log = options.output_dir / f"{name}-{number}.log"
        training = train(arch, data, options, log)
        reason = fault(training, options.updates)
        if reason is not None:
            raise SystemExit(f"training.py: {arch}, {options.dtype}: {reason}; see {log}")
        speeds[arch].append(training.words_per_second)
        losses[arch].append(training.losses)

    batch = f"B{options.batch_size} T{options.tokens_per_sample}, {options.dtype}"
    size = f"{options.layers} layers of {options.width}"
    table = Table(title=f"{size}, {batch}, {options.updates} updates each")
    for heading in ("--arch", "words per second", "each training", "ratio"):
        table.add_column(heading, justify="right")
    base = statistics.median(speeds[compared[0]])
    for arch, values in speeds.items():
        median = statistics.median(values)
        each = ", ".join(f"{value:.0f}" for value in values)
        table.add_row(arch, f"{median:.0f}", each, f"{median / base:.3f}")
    console.print(table)
    ratios = [b / a for a, b in zip(*speeds.values())]
    result = {
        "words_per_second": speeds,
        "ratio_of_each_round": ratios,
        "losses_in_bits": losses,  # all of them finite
    }
    path = options.output_dir / "results.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    console.print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
