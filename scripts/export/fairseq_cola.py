"""Trains a model on CoLA with fairseq-train and records every batch and its loss.

    python scripts/export/fairseq_cola.py OUT --data GLUE_BIN/CoLA --checkpoint CHECKPOINT

CHECKPOINT is a fine-tuned model whose exported folder ``trainer_vs_fairseq.py`` trains in the same
way.  OUT/updates.pt lists, for each update, the rows' token ids, their labels and the mean loss in
nats, as it was before fairseq rounds it for its log.
"""

import argparse
import sys
from pathlib import Path

import fairseq_cli.train
import torch
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion
from running import USER_DIR

from tupe_fairseq.checkpoint.checkpoint import read
from tupe_fairseq.options import POSITION_OPTIONS, flag

SCHEDULE = {"lr": 3e-4, "warmup": 20, "updates": 200, "batch_size": 32}
ADAM = {"betas": (0.9, 0.98), "eps": 1e-8, "weight_decay": 0.01, "clip_norm": 1.0}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--checkpoint", required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    updates = recorded_updates()
    sys.argv = ["fairseq-train", *map(str, flags(args))]
    fairseq_cli.train.cli_main()
    print(f"{len(updates)} updates: loss {updates[0]['loss']:.4f} to {updates[-1]['loss']:.4f}")
    torch.save({"updates": updates, "schedule": SCHEDULE, "adam": ADAM}, args.out / "updates.pt")


def recorded_updates():
    """A list to which fairseq's criterion adds every batch that it is given."""
    updates, forward = [], SentencePredictionCriterion.forward

    def recording(self, model, sample, reduce=True):
        loss, size, output = forward(self, model, sample, reduce)
        tokens = sample["net_input"]["src_tokens"]
        updates.append({
            "ids": [row[row != self.task.source_dictionary.pad()].tolist() for row in tokens],
            "labels": sample["target"].view(-1).tolist(),
            "loss": loss.item() / size,
        })  # fmt: skip
        return loss, size, output

    SentencePredictionCriterion.forward = recording
    return updates


def flags(args):
    """fairseq-train's, with the model's own options and no dropout."""
    options = read(args.checkpoint).options
    model = []
    for name in ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim",
                 "encoder_attention_heads", "max_positions", "position_encoding"):  # fmt: skip
        model += ["--" + name.replace("_", "-"), options[name]]
    for name, option in POSITION_OPTIONS.items():
        value, is_number = options.get(name), option.default is None
        # numbers that have an effect only with --rel-pos are recorded without it, too
        if value and not (is_number and not options.get("rel_pos")):
            model += [flag(name), *([value] if is_number else [])]
    return [
        args.data, "--user-dir", USER_DIR, "--arch", options["arch"], *model,
        "--dropout", 0, "--attention-dropout", 0, "--pooler-dropout", 0,
        "--task", "sentence_prediction", "--criterion", "sentence_prediction", "--num-classes", 2,
        "--init-token", 0, "--separator-token", 2, "--find-unused-parameters",
        "--restore-file", args.checkpoint, "--reset-optimizer", "--reset-dataloader",
        "--reset-meters", "--reset-lr-scheduler",
        "--optimizer", "adam", "--adam-betas", str(ADAM["betas"]), "--adam-eps", ADAM["eps"],
        "--weight-decay", ADAM["weight_decay"], "--clip-norm", ADAM["clip_norm"],
        "--lr", SCHEDULE["lr"], "--lr-scheduler", "polynomial_decay",
        "--warmup-updates", SCHEDULE["warmup"], "--total-num-update", SCHEDULE["updates"],
        "--max-update", SCHEDULE["updates"], "--batch-size", SCHEDULE["batch_size"],
        "--required-batch-size-multiple", 1, "--num-workers", 0, "--data-buffer-size", 0,
        "--disable-validation", "--no-save", "--save-dir", args.out, "--seed", 1, "--cpu",
        "--log-format", "simple", "--log-interval", 50,
    ]  # fmt: skip


if __name__ == "__main__":
    main()
