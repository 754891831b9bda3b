#!/usr/bin/env python
"""Kill commands with SIGKILL at random moments, give them again, compare with a run never killed.

    python scripts/soak.py OUT                              # 20 kills of each; some twenty minutes
    python scripts/soak.py OUT --only training --kills 5

Compared are the bytes of data and results, and weights, optimizer and losses of trainings.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

REPO = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPO)}
SIZE = "--encoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 64"
TRAIN = f"""
--user-dir {REPO}/tupe_fairseq --arch tupe_roberta_tiny {SIZE} --encoder-attention-heads 4 --rel-pos
--task masked_lm --criterion masked_lm --sample-break-mode complete --tokens-per-sample 64
--max-positions 64 --skip-invalid-size-inputs-valid-test --required-batch-size-multiple 1
--optimizer adam --adam-betas (0.9,0.98) --adam-eps 1e-6 --weight-decay 0.01 --clip-norm 1.0
--lr 1e-2 --lr-scheduler polynomial_decay --warmup-updates 5 --total-num-update 240
--max-update 24 --batch-size 4 --max-valid-steps 2 --save-interval-updates 3
--keep-interval-updates 2 --num-workers 0 --data-buffer-size 0 --cpu --seed 7
--log-format json --log-interval 1
"""
# of a measurement, not of a result
MEASURED = re.compile(r"seconds|second|memory|time|wall|machine|parallel|previous_training")


def commands(folder: Path) -> dict[str, list]:
    """The command of each subject; OUT is its folder."""
    text, data = folder / "text", folder / "data"
    prepare = f"--input {text}/train.txt --valid-input {text}/valid.txt --output-dir OUT"
    finetune = f"--data {folder}/task --checkpoint {folder}/model/checkpoint_last.pt"
    return {
        "prepare-pretrain": f"tupe-prepare-pretrain {prepare} --vocab-size 600 "
        "--tokens-per-sample 64 --workers 2".split(),
        "training": ["fairseq-train", str(data), *TRAIN.split(), "--save-dir", "OUT"],
        "finetune": f"tupe-finetune {finetune} --output-dir OUT --lrs 1e-3,2e-3 --seeds 1 "
        "--epochs 2 --batch-size 64 --parallel 2 --keep-checkpoints --cpu".split(),
    }


def write_inputs(folder: Path) -> None:
    """Text, data, a model and a task, made once."""
    from pydoc_data.topics import topics

    blocks = [" ".join(block.split()) for t in topics.values() for block in t.split("\n\n")]
    lines = list(dict.fromkeys(" ".join(b.split()[:25]) for b in blocks if b.count(" ") > 8))
    (folder / "text").mkdir(parents=True, exist_ok=True)
    (folder / "text" / "train.txt").write_text("\n\n".join(lines[50:]) + "\n")
    (folder / "text" / "valid.txt").write_text("\n\n".join(lines[:50]) + "\n")
    rows = [f"{line}\t{'long' if len(line) > 120 else 'short'}\n" for line in lines[:400]]
    (folder / "rows.tsv").write_text("text\tlabel\n" + "".join(rows))
    todo = commands(folder)
    task = f"--kind classification --train {folder}/rows.tsv --pretrain-dir {folder}/data"
    for name, words in {
        "data": todo["prepare-pretrain"],
        "model": todo["training"],
        "task": f"tupe-prepare-task {task} --output-dir {folder}/task".split(),
    }.items():
        if not (folder / name).is_dir():
            attempt(words, folder / name)


def attempt(words: list[str], out: Path, delay: float | None = None) -> bool:
    """Run a command, or kill it and its children after some seconds; whether it was killed."""
    words = [word.replace("OUT", str(out)) for word in words]
    with open(f"{out}.log", "a") as log:
        process = subprocess.Popen(
            [BIN / words[0], *words[1:]], stdout=log, stderr=log, env=ENV, start_new_session=True
        )
        try:
            code = process.wait(delay)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return True
    if code:
        sys.exit(f"scripts/soak.py: error: {words[0]} ended with exit code {code}; see {out}.log")
    return False


def result(out: Path) -> dict[str, object]:
    """What a command leaves, without times: contents by file, and the losses of each update."""
    found = {str(p.relative_to(out)): content(p, out) for p in out.rglob("*") if p.is_file()}
    for record in re.findall(r"\| train_inner \| (\{.*\})", Path(f"{out}.log").read_text()):
        record = json.loads(record)
        found.setdefault(f"loss at {record['num_updates']}", set()).add(record["loss"])
    return found


def content(path: Path, out: Path) -> object:
    if path.suffix == ".pt":
        # weights_only: false, as a command of ours has written it a moment ago
        state = torch.load(path, map_location="cpu", weights_only=False)
        schedule = state["optimizer_history"][-1]["lr_scheduler_state"].get("num_updates")
        return schedule, flat(state["model"]), flat(state["last_optimizer_state"])
    if path.suffix in (".png", ".log"):
        return "there"
    if path.suffix == ".json":
        return flat(json.loads(path.read_text()))
    return path.read_bytes().replace(str(out).encode(), b"OUT")


def flat(value) -> object:
    if isinstance(value, dict):
        return {str(key): flat(x) for key, x in value.items() if not MEASURED.search(str(key))}
    if isinstance(value, (list, tuple)):
        return [flat(one) for one in value]
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.contiguous().numpy().tobytes()
    return value


def soak(name: str, words: list[str], folder: Path, kills: int, seed: int) -> str:
    """Kill one subject so often, in as many runs as it takes; the line of the table."""
    chance, begun = random.Random(f"{name} {seed}"), time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    attempt(words, folder / "unkilled")
    duration = time.monotonic() - begun
    expected, done, runs, wrong = result(folder / "unkilled"), 0, 0, []
    while done < kills and runs < 3 * kills:
        out, runs = folder / f"killed-{runs + 1}", runs + 1
        for _ in range(min(chance.randint(3, 7), kills - done)):
            if not attempt(words, out, chance.uniform(0, duration)):
                break
            done += 1
        else:
            attempt(words, out)
        found = result(out)
        wrong += [f"{out}/{x}" for x in {*expected, *found} if expected.get(x) != found.get(x)]
    verdict = f"DIFFERENT: {', '.join(wrong[:5])} ({len(wrong)})" if wrong else "the same"
    return f"{name:<18}{done} kills, {runs} runs: {verdict} ({time.monotonic() - begun:.0f} s)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for everything")
    parser.add_argument("--only", choices=list(commands(Path())), help="one of them")
    parser.add_argument("--kills", type=int, default=20, metavar="N", help="of each; default 20")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the moments")
    args = parser.parse_args()
    folder = args.out.resolve()
    write_inputs(folder)
    lines = []
    for name, words in commands(folder).items():
        if args.only in (None, name):
            lines.append(soak(name, words, folder / name, args.kills, args.seed))
            print(lines[-1], flush=True)
    sys.exit(any("DIFFERENT" in line for line in lines))


if __name__ == "__main__":
    main()
