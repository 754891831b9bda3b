"""What is left of a model with learned positions when it becomes TUPE, and what training saves.

    python scripts/benchmarks/untie.py data-bin learned.pt                  # a minute
    python scripts/benchmarks/untie.py data-bin learned.pt --updates 2000 --scratch-updates 4000

Prints the masked-LM loss of the valid split, in bits, by fairseq-validate: of the checkpoint, of
what tupe-convert --untie makes of it, and of its words and layers alone, with new positions.  With
--updates both are trained on for so many updates, and TUPE from scratch for --scratch-updates, each
with a whole schedule and with each of --seeds, and their losses are compared.  fairseq masks <s>,
too, which learned positions give away and TUPE must learn: one target in as many as a sample has
tokens, so that short samples show more of a loss than there is for words.  DATA_BIN is a folder
of fairseq-preprocess or tupe-prepare-pretrain with the checkpoint's dict.txt.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import torch

import tupe_fairseq
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.checkpoint.allowed_options import read_pretrained
from tupe_fairseq.checkpoint.checkpoint import ENCODER, read
from tupe_fairseq.cli.printed_commands import masked_lm_training

BIN = Path(sys.executable).parent
USER_DIR = tupe_fairseq.__path__[0]


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("data", type=Path, metavar="DATA_BIN", help="with a valid split")
    add("checkpoint", type=Path, help="a model with learned positions, ours or fairseq's RoBERTa")
    add("--output-dir", type=Path, default=Path("untie-benchmark"), help="default: %(default)s")
    add("--updates", type=int, default=0, help="of continued training; default: none")
    add("--scratch-updates", type=int, help="of TUPE from scratch; default: twice --updates")
    add("--seeds", default="1,2", help="of the trainings; default %(default)s")
    add("--lr", default="1e-3", help="peak learning rate of both trainings; default %(default)s")
    add("--batch-size", type=int, default=32, help="samples of a batch; default %(default)s")
    options = parser.parse_args(arguments)
    if options.updates and options.updates < 10:
        parser.error(f"--updates ({options.updates}) must be at least 10, or 0")
    if not all(seed.isdecimal() for seed in options.seeds.split(",")):
        parser.error(f"--seeds ({options.seeds}) must be whole numbers separated by commas")
    if options.scratch_updates is None:
        options.scratch_updates = 2 * options.updates
    for path in (options.data / "dict.txt", options.checkpoint):
        if not path.is_file():
            parser.error(f"{path} is not a file")
    return options


def run(words, log: Path) -> str:
    """Runs a command of this environment; its output goes to a file, and is returned."""
    words = [str(word) for word in words]
    with log.open("w") as file:
        code = subprocess.run(
            [str(BIN / words[0]), *words[1:]], stdout=file, stderr=subprocess.STDOUT
        ).returncode
    said = log.read_text(errors="replace")
    if code:
        raise SystemExit(f"{said[-3000:]}\n{words[0]} ended with {code}; see {log}")
    return said


def words_alone(untied: Path, learned: Path, path: Path) -> None:
    """The untied model with a new position bias and the LayerNorm as it was."""
    state, before = torch.load(untied), read(learned).tensors
    torch.manual_seed(1)
    fresh = TupeEncoder(TupeConfig.from_roberta_options(state["args"]))
    for name, tensor in fresh.state_dict().items():
        if name.startswith("position_bias."):
            state["model"][ENCODER + name] = tensor
    for name, tensor in before.items():
        for theirs in ("layernorm_embedding.", "emb_layer_norm."):
            if theirs in name:
                kind = name.rpartition(".")[2]
                state["model"][f"{ENCODER}layernorm_embedding.{kind}"] = tensor.float()
    torch.save(state, path)


def last_loss(said: str) -> float:
    """The last validation's loss in a log of JSON lines, in bits."""
    lines = [line for line in said.splitlines() if '"valid_loss"' in line]
    return float(json.loads(lines[-1][lines[-1].index("{") :])["valid_loss"])


def validated(checkpoint: Path, length: int, options, log: Path) -> float:
    return last_loss(run(
        ["fairseq-validate", options.data, "--path", checkpoint, "--user-dir", USER_DIR,
         "--task", "masked_lm", "--criterion", "masked_lm", "--sample-break-mode", "none",
         "--tokens-per-sample", length, "--skip-invalid-size-inputs-valid-test",
         "--batch-size", 4 * options.batch_size, "--num-workers", 0, "--seed", 3,
         "--log-format", "json", *device()], log,
    ))  # fmt: skip


def device():
    return [] if torch.cuda.is_available() else ["--cpu"]


def trained(start: Path, updates: int, from_scratch: bool, seed: str, options, name: str) -> float:
    """The loss after a training with its whole schedule."""
    state = [] if from_scratch else ["--finetune-from-model", str(start)]
    length = torch.load(start)["args"].max_positions
    words = masked_lm_training(
        str(options.data), [*read_pretrained(str(start)).flags, *state], length=length,
        updates=updates, warmup=updates // 10, lr=options.lr,
    )  # fmt: skip
    folder = options.output_dir / name
    return last_loss(run(
        [*words, "--sample-break-mode", "none", "--batch-size", options.batch_size,
         "--batch-size-valid", 4 * options.batch_size, "--validate-interval-updates", updates,
         "--save-interval-updates", updates, "--num-workers", 0, "--seed", seed,
         "--log-format", "json", "--save-dir", folder, *device()],
        options.output_dir / f"{name}.log",
    ))  # fmt: skip


def main(arguments=None):
    options = parse(arguments)
    out = options.output_dir
    out.mkdir(parents=True, exist_ok=True)
    untied = out / "untied" / "model.pt"
    run(
        ["tupe-convert", "--untie", "--checkpoint", options.checkpoint, "--dict",
         options.data / "dict.txt", "--output-dir", untied.parent, "--overwrite"],
        out / "convert.log",
    )  # fmt: skip
    length = torch.load(untied)["args"].max_positions
    words = out / "words.pt"
    words_alone(untied, options.checkpoint, words)
    cases = {"learned": options.checkpoint, "untied": untied, "words alone": words}
    losses = {}
    for name, path in cases.items():
        losses[name] = validated(path, length, options, out / f"validate-{path.stem}.log")
        print(f"{name}: {losses[name]:.3f} bits", flush=True)
    trainings = {
        "untied": (untied, options.updates),
        "words alone": (words, options.updates),
        "scratch": (untied, options.scratch_updates),
    }
    for name, (start, updates) in trainings.items():
        for seed in options.seeds.split(",") if updates else []:
            case = f"{name}, {updates} updates, seed {seed}"
            folder = f"{name.split()[0]}-{updates}-{seed}"
            losses[case] = trained(start, updates, name == "scratch", seed, options, folder)
            print(f"{case}: {losses[case]:.3f} bits", flush=True)
    path = out / "results.json"
    path.write_text(json.dumps({"loss_in_bits": losses}, indent=1) + "\n")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
