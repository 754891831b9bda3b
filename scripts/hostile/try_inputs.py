"""Gives hostile and broken files to what reads them, and says how each ends.

    python scripts/hostile/try_inputs.py --output-file results.jsonl

Run it where fairseq, this package and its tests' needs are installed.  The inputs are changes of
sound files (kinds/), the same for the same --seed.  Each goes into a copy of a folder of sound
files, and a fork of this process runs the reader there, for 20 seconds and 1 GB at most.  It should
end with exit code 2, one clear line and no file under its final name; or, where the input is still
one of its kind, with the result of the sound file, or of that other input.  A line of JSON for each
trial is written, and a summary printed; the exit code is 1 if a trial ended otherwise.
"""

import argparse
import collections
import gc
import importlib
import json
import os
import pkgutil
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

os.environ.update(OMP_NUM_THREADS="1", PYTHONHASHSEED="0", MPLBACKEND="agg")
_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parents[1] / "tests"), str(_HERE.parents[1])]

import kinds  # noqa: E402
from case import Case, each_reader  # noqa: E402
from forked_trial import Outcome, contents, run_forked  # noqa: E402
from readers import READERS  # noqa: E402
from scenes import write_scenes  # noqa: E402
from verdict import GOOD, verdict  # noqa: E402

# what forks need not import again
_IMPORTED = (
    "fairseq_cli.train", "fairseq_cli.hydra_train", "matplotlib.backends.backend_agg", "pyarrow",
    "scipy.stats", "sklearn.metrics", "sentencepiece", "safetensors.torch",
    *(f"tupe_fairseq.commands.{name}" for name in (
        "compare", "convert", "encode", "export", "extend", "finetune", "plot", "predict",
        "prepare_glue", "prepare_pretrain", "prepare_task", "score")),
)  # fmt: skip


class Trial(NamedTuple):
    """A case with one of its readers, and how it ended."""

    case: Case
    reader: str
    outcome: Outcome
    verdict: str
    about: str


def get_parser() -> argparse.ArgumentParser:
    names = [module.name for module in pkgutil.iter_modules(kinds.__path__)]
    parser = argparse.ArgumentParser(
        description="Give hostile and broken files to what reads them, and say how each ends.",
        epilog="example: python scripts/hostile/try_inputs.py --only row_files --limit 20",
    )
    add = parser.add_argument
    add("--only", choices=names, action="append", metavar="KIND", help=", ".join(names))
    add("--match", default="", metavar="TEXT", help="only cases or readers with it in their names")
    add("--seed", type=int, default=1, help="of the bits and places that are drawn; default 1")
    add("--limit", type=int, metavar="N", help="only N trials of each kind, drawn")
    add("--output-file", type=Path, metavar="OUT", help="a line of JSON for each trial")
    add("--list", action="store_true", help="say what would be tried, and count")
    add("--keep", type=Path, metavar="DIR", help="keep the folders of trials that end badly")
    return parser


def main() -> None:
    args = get_parser().parse_args()
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that forks need not look through it, nor copy it
    # no TemporaryDirectory, which forks would remove when they end
    work = Path(tempfile.mkdtemp())
    try:
        scenes = work / "sound"
        made = run_forked(lambda: write_scenes(scenes), work, work / "log", most_seconds=300)
        if made.code != 0:
            raise SystemExit(f"the sound files cannot be made:\n{made.output}")
        trials = chosen(scenes, args)
        if args.list:
            for case, reader in trials:
                print(f"{case.kind}: {case.name} -> {reader}")
            print(f"{number_of_inputs(trials)} inputs, {len(trials)} trials")
            return
        bad = run(trials, scenes, work, args)
    finally:
        shutil.rmtree(work)
    raise SystemExit(1 if bad else 0)


def chosen(scenes: Path, args: argparse.Namespace) -> list:
    found = []
    for module in args.only or [module.name for module in pkgutil.iter_modules(kinds.__path__)]:
        draw = random.Random(f"{args.seed} {module}")
        cases = list(importlib.import_module(f"kinds.{module}").cases(scenes, draw))
        trials = [
            t for t in each_reader(cases) if args.match in f"{t[0].kind}: {t[0].name} -> {t[1]}"
        ]
        if args.limit is not None and len(trials) > args.limit:
            trials = draw.sample(trials, args.limit)
        found += trials
    return found


def number_of_inputs(trials: list) -> int:
    return len({(case.kind, case.name, case.scene) for case, _ in trials})


def run(trials: list, scenes: Path, work: Path, args: argparse.Namespace) -> int:
    begin, sound = time.monotonic(), {}
    counts: dict[str, int] = collections.Counter()
    output = open(args.output_file, "w") if args.output_file else open(os.devnull, "w")
    with output:
        for number, (case, reader) in enumerate(trials):
            if reader not in sound:
                sound[reader] = result_of_sound(reader, scenes, work)
            trial = one(case, reader, scenes, work, sound[reader], args.keep)
            counts[trial.verdict] += 1
            output.write(json.dumps(record(trial)) + "\n")
            output.flush()
            if trial.verdict not in GOOD:
                where = f"{case.kind}: {case.name} -> {reader}"
                print(f"{trial.verdict}: {where}: {trial.about[:300]}", flush=True)
            elif sys.stderr.isatty():
                print(f"\r{number + 1} of {len(trials)}", end="", file=sys.stderr)
    bad = sum(count for name, count in counts.items() if name not in GOOD)
    inputs = number_of_inputs(trials)
    listed = ", ".join(f"{name}: {count}" for name, count in counts.most_common())
    print(
        f"{inputs} inputs, {len(trials)} trials in {time.monotonic() - begin:.0f} s: {bad} not as "
        f"they should be ({listed})"
    )
    return bad


def result_of_sound(reader: str, scenes: Path, work: Path) -> bytes:
    """What the reader gives for the sound files; nothing can be tried if it refuses them."""
    one = READERS[reader]
    folder = fresh(scenes / one.scene, work)
    outcome = run_forked(one.call, folder, work / "log")
    given = one.result(contents(folder), outcome.output)
    if outcome.code or given is None:
        raise SystemExit(f"{reader} refuses the sound files: {outcome.output[-3000:]}")
    return given


def one(case: Case, reader: str, scenes: Path, work: Path, sound: bytes, keep) -> Trial:
    folder = fresh(scenes / case.scene, work)
    case.change(folder)
    before = contents(folder)
    outcome = run_forked(READERS[reader].call, folder, work / "log")
    word, about = verdict(outcome, READERS[reader], case.right, before, contents(folder), sound)
    if keep is not None and word not in GOOD:
        kept = keep / f"{len(list(keep.glob('*'))) if keep.exists() else 0:03}"
        shutil.copytree(folder, kept / "folder", symlinks=True)
        shutil.copy(work / "log", kept / "log")
        (kept / "case").write_text(f"{case.kind}: {case.name} -> {reader}\n{word}: {about}\n")
    return Trial(case, reader, outcome, word, about)


def fresh(scene: Path, work: Path) -> Path:
    """A copy of the sound files, always under the same path, with their times."""
    folder = work / "trial"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(scene, folder)
    return folder


def record(trial: Trial) -> dict:
    return {
        "kind": trial.case.kind,
        "case": trial.case.name,
        "reader": trial.reader,
        "right": trial.case.right,
        "verdict": trial.verdict,
        "about": trial.about[:500],
        "code": trial.outcome.code,
        "seconds": round(trial.outcome.seconds, 2),
        "mib": round(trial.outcome.mib),
    }


if __name__ == "__main__":
    main()
