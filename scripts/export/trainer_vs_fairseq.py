"""Trains a model folder on CoLA with Trainer, beside what fairseq-train did from the same weights.

    python scripts/export/trainer_vs_fairseq.py FOLDER UPDATES --cola GLUE_DIR/CoLA

FOLDER is the exported checkpoint, UPDATES what ``fairseq_cola.py`` recorded.  Run it in an
environment without fairseq and without this project.  The sentences are CoLA's own, made tokens by
the folder's tokenizer, in the batches and the order that fairseq drew; no dropout; the same Adam
with decoupled weight decay, clipping and linear schedule.  Fails if a loss of the first 50 updates
differs by more than 1e-3, or if one of the two does not fall.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

TOLERANCE, COMPARED = 1e-3, 50
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
              "classifier_dropout": 0.0}  # fmt: skip


class InOrder(Trainer):
    """Takes the given batches as they come, and keeps the loss of every update."""

    def __init__(self, *, batches, **kwargs):
        super().__init__(**kwargs)
        self.batches, self.losses = batches, []

    def get_train_dataloader(self):
        return DataLoader(
            self.train_dataset, batch_sampler=self.batches, collate_fn=self.data_collator
        )

    def compute_loss(self, model, inputs, *args, **kwargs):
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        self.losses.append(loss.item())
        return loss


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("updates")
    parser.add_argument("--cola", type=Path, required=True)
    args = parser.parse_args()
    record = torch.load(args.updates, weights_only=True)
    tokenizer = AutoTokenizer.from_pretrained(args.folder, trust_remote_code=True)
    rows, batches = rows_of(record["updates"], tokenizer, args.cola)
    model = AutoModelForSequenceClassification.from_pretrained(
        args.folder, trust_remote_code=True, **NO_DROPOUT
    )
    ours = train(model, tokenizer, rows, batches, record)
    theirs = [update["loss"] for update in record["updates"]]
    report(ours, theirs)


def rows_of(updates, tokenizer, cola):
    """The rows in fairseq's order, by the folder's tokenizer, and those of each batch."""
    lines = (cola / "train.tsv").read_text("utf-8").splitlines()
    texts = [line.split("\t")[3] for line in lines]
    encoded = {tuple(ids) for ids in tokenizer(texts)["input_ids"]}
    rows, batches = [], []
    for update in updates:
        batches.append(range(len(rows), len(rows) + len(update["ids"])))
        for ids, label in zip(update["ids"], update["labels"]):
            if tuple(ids) not in encoded:
                sys.exit(f"no sentence of {cola} has the tokens {ids} by this tokenizer")
            rows.append({"input_ids": ids, "labels": label})
    return rows, batches


def train(model, tokenizer, rows, batches, record):
    """The loss of every update."""
    schedule, adam = record["schedule"], record["adam"]
    optimizer = torch.optim.AdamW(  # of all parameters: fairseq lets biases decay, too
        model.parameters(), lr=schedule["lr"], betas=tuple(adam["betas"]), eps=adam["eps"],
        weight_decay=adam["weight_decay"],
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        arguments = TrainingArguments(
            output_dir=place, max_steps=schedule["updates"], learning_rate=schedule["lr"],
            lr_scheduler_type="linear", warmup_steps=schedule["warmup"],
            per_device_train_batch_size=schedule["batch_size"], max_grad_norm=adam["clip_norm"],
            save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True,
            use_cpu=True, dataloader_pin_memory=False, seed=1,
        )  # fmt: skip
        trainer = InOrder(
            model=model, args=arguments, train_dataset=rows, batches=batches,
            optimizers=(optimizer, None), data_collator=DataCollatorWithPadding(tokenizer),
        )  # fmt: skip
        trainer.train()
    return trainer.losses


def report(ours, theirs):
    """Print both, and end with 1 if they are not the same training."""
    assert len(ours) == len(theirs), f"{len(ours)} updates beside {len(theirs)}"
    print("| updates | fairseq-train | Trainer | largest difference |\n| --- | --- | --- | --- |")
    for start in range(0, len(ours), COMPARED):
        part = slice(start, start + COMPARED)
        mean = [sum(x[part]) / len(x[part]) for x in (theirs, ours)]
        largest = max(abs(a - b) for a, b in zip(ours[part], theirs[part]))
        print(f"| {start + 1} to {start + len(ours[part])} | {mean[0]:.4f} | {mean[1]:.4f} "
              f"| {largest:.1e} |")  # fmt: skip
    largest = max(abs(a - b) for a, b in zip(ours[:COMPARED], theirs[:COMPARED]))
    if not largest <= TOLERANCE:
        sys.exit(f"the losses of the first {COMPARED} updates differ by {largest:.2g}")
    for name, losses in (("fairseq-train", theirs), ("Trainer", ours)):
        first, last = sum(losses[:COMPARED]), sum(losses[-COMPARED:])
        if not last < first:
            sys.exit(f"the loss of {name} does not fall")


if __name__ == "__main__":
    main()
