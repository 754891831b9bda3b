"""Fewer updates with --optimizer muon: 5,000 of fused_adam compared with 2,500 of muon.

    python scripts/benchmarks/muon.py ratios DATA OUT    # --muon-lr-ratio: 1.5 hours of a core
    python scripts/benchmarks/muon.py table DATA OUT     # whole schedules: 14 hours of a core
    python scripts/benchmarks/muon.py steps DATA OUT     # CPU time of an update: minutes

DATA is the data folder of the first study: examples/results has the command that makes it. The
models have 4 layers of 192. Each scheme is trained at its best of four rates, or of more if the
best is the lowest or the highest of them; a rate is tried for 0.3 of the updates, with the schedule
of so many. One run at a time, on the CPU, with one thread. Tables are in OUT, and have what is
finished so far; the same command continues.
"""

import argparse
import math
import os
import resource
import subprocess
from statistics import fmean, median

from tupe_fairseq.compare.comparison import Comparison
from tupe_fairseq.compare.options import CompareOptions
from tupe_fairseq.compare.pre_training import PreTraining
from tupe_fairseq.compare.results import updates_to_reach
from tupe_fairseq.files import atomic_write
from tupe_fairseq.results.page import table as markdown

UPDATES = {"muon": 2500, "fused_adam": 5000}
RATES = [1e-3, 5e-4, 2e-3, 4e-3]
RATIOS = [10, 20, 40]
TUPE_R = "tupe --rel-pos"
SEEDS = {TUPE_R: [1, 2, 3], "rope": [1, 2, 3], "learned": [1], "none --rel-pos": [1]}
SIZES = (
    "--encoder-layers 4 --encoder-embed-dim 192 --encoder-ffn-embed-dim 768 "
    "--encoder-attention-heads 4 --dropout 0 --attention-dropout 0"
)
# name: architecture, further flags, updates of a short and of a longer training
STEPS = {
    "4 layers of 192": ("tupe_roberta_tiny", SIZES, 10, 50),
    "12 layers of 768": ("tupe_roberta_base", "", 2, 6),
}


def with_ratio(ratio: float) -> str:
    return f"muon --muon-lr-ratio {ratio:g}"


def run_of(
    args, optimizer, scheme, lr, updates, seed=1, arch="tupe_roberta_tiny", flags=SIZES
) -> PreTraining:
    name = f"{updates}-updates-lr{lr:g}"
    options = CompareOptions(
        data=args.data,
        output_dir=os.path.join(args.out, optimizer.replace(" ", ""), name),
        schemes=scheme,
        updates=updates,
        warmup_updates=updates * 3 // 50,
        validate_every=min(updates, 250),
        lr=lr,
        train_flags=(*flags.split(), "--optimizer", *optimizer.split()),
        cpu=True,
        threads=1,
    )
    return PreTraining(options, arch, *options.schemes, seed, lr)


def train(run: PreTraining) -> dict:
    """The result of a run, which is made or continued if it is not finished."""
    study = Comparison(run.options.output_dir, [run])
    study.complete()
    study.exit_if_failed()
    result = run.result()
    assert result is not None
    return result


def loss_of(result: dict) -> float:
    return math.inf if result["diverged"] else result["final_loss"]


def short_loss(args, optimizer: str, scheme: str, lr: float) -> float:
    updates = UPDATES[optimizer.split()[0]] * 3 // 10
    return loss_of(train(run_of(args, optimizer, scheme, lr, updates)))


def best_rate(args, optimizer: str, scheme: str) -> float:
    losses, rates = {}, RATES
    while rates:
        losses |= {lr: short_loss(args, optimizer, scheme, lr) for lr in rates}
        best = min(losses, key=losses.__getitem__)
        rates = [best / 2] * (best == min(losses)) + [best * 2] * (best == max(losses))
    return best


def write(args, name: str, header: list, rows: list) -> None:
    with atomic_write(os.path.join(args.out, name)) as file:
        file.write(markdown(dict(zip(header, row)) for row in rows))


def ratios(args) -> None:
    """The loss after short runs, by the ratio of muon's rate to --lr."""
    losses: dict[float, list[str]] = {ratio: [] for ratio in RATIOS}
    for number, lr in enumerate(RATES[:3], 1):
        for ratio, row in losses.items():
            row.append(f"{short_loss(args, with_ratio(ratio), TUPE_R, lr):.3f}")
        done = [*map("{:g}".format, RATES[:number])]
        write(args, "ratios.md", ["ratio", *done], [[x, *row] for x, row in losses.items()])


def table(args) -> None:
    """Whole schedules; all schemes with seed 1 come first."""
    optimizers = [with_ratio(args.ratio), "fused_adam"]
    rows: dict[str, list] = {}
    pairs: dict[str, list] = {scheme: [] for scheme in SEEDS}
    for seed in (1, 2, 3):
        for scheme in [scheme for scheme, seeds in SEEDS.items() if seed in seeds]:
            pair = []
            for optimizer, updates in zip(optimizers, UPDATES.values()):
                lr = best_rate(args, optimizer, scheme)
                pair.append(train(run_of(args, optimizer, scheme, lr, updates, seed)))
            pairs[scheme].append(pair)
            cells = []
            for results in zip(*pairs[scheme]):
                cells += [f"{results[0]['lr']:g}", f"{fmean(map(loss_of, results)):.3f}"]
            reached = [
                updates_to_reach(muon["curve"], loss_of(adam)) for muon, adam in pairs[scheme]
            ]
            cells.append(", ".join("never" if x is None else f"{x:.0f}" for x in reached))
            rows[scheme] = [scheme, len(pairs[scheme]), *cells]
            header = ["scheme", "seeds"]
            header += [f"{x}: {y}" for x in UPDATES for y in ("rate", "loss, bits")]
            header += ["updates of muon to the loss of fused_adam"]
            write(args, "table.md", header, [*rows.values()])


def steps(args) -> None:
    """CPU seconds of an update: the difference between a longer training and a short one."""
    rows = []
    for name, (arch, flags, *updates) in STEPS.items():
        rounds: dict[str, list[float]] = {optimizer: [] for optimizer in UPDATES}
        for _ in range(3):
            for optimizer, seconds in rounds.items():
                short, longer = (
                    cpu_seconds(run_of(args, optimizer, TUPE_R, 1e-3, x, 1, arch, flags))
                    for x in updates
                )
                seconds.append((longer - short) / (updates[1] - updates[0]))
        muon, adam = rounds.values()
        ratio = [y / x for x, y in zip(adam, muon)]
        middle = [f"{median(x):.3f}" for x in (muon, adam, ratio)]
        rows.append([name, *middle, f"{min(ratio):.2f} to {max(ratio):.2f}"])
        write(args, "steps.md", ["model", *UPDATES, "muon / fused_adam", "rounds"], rows)


def cpu_seconds(run: PreTraining) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [*run.command, "--no-save", "--disable-validation"]
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = {part.__name__: part for part in (ratios, table, steps)}
    parser.add_argument("part", choices=parts)
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--ratio", type=float, default=10, help="muon's in table; default 10")
    args = parser.parse_args()
    parts[args.part](args)


if __name__ == "__main__":
    main()
