"""Trainings of tiny models through fairseq, in this process, on data made here."""

import json
import random
import re

import torch

from helpers.glue_data import random_rows, write_bin, write_task
from helpers.running import USER_DIR, run_here
from tupe_fairseq.labelled.glue import GLUE_TASKS
from tupe_fairseq.recipe import PRE_TRAINING

WORDS = [f"w{n}" for n in range(30)]
MAX_POSITIONS = 16
# all different, so that a wrong axis fails
SIZE = [
    "--encoder-layers", 2, "--encoder-embed-dim", 12, "--encoder-ffn-embed-dim", 20,
    "--encoder-attention-heads", 3,
]  # fmt: skip
MODEL = ["--user-dir", USER_DIR, "--arch", "tupe_roberta_tiny", *SIZE]
OPTIMIZATION = [
    *PRE_TRAINING, "--lr", 1e-2, "--required-batch-size-multiple", 1, "--seed", 3,
    # no reading ahead: a thread that still reads when the process ends can abort it
    "--num-workers", 0, "--data-buffer-size", 0, "--cpu", "--log-format", "json",
    "--log-interval", 1,
]  # fmt: skip
DECAY = ["--lr-scheduler", "polynomial_decay", "--total-num-update", 40]
PRETRAINING = [
    *OPTIMIZATION, *DECAY, "--task", "tupe_masked_lm", "--criterion", "masked_lm",
    "--sample-break-mode", "complete", "--skip-invalid-size-inputs-valid-test",
    "--tokens-per-sample", MAX_POSITIONS, "--max-positions", MAX_POSITIONS,
    "--batch-size", 4, "--max-update", 10, "--disable-validation", "--no-epoch-checkpoints",
]  # fmt: skip
#: for the longer lines of real text
UP_TO_64 = ["--tokens-per-sample", 64, "--max-positions", 64]


def write_text_data(folder, words=WORDS):
    """A data folder for masked_lm: each word is mostly the successor of the previous word."""
    draw = random.Random(1)
    folder.mkdir(parents=True)
    (folder / "dict.txt").write_text("".join(f"{word} 1\n" for word in words))
    for split in ("train", "valid"):
        rows = []
        for number in range(60):
            first = draw.randrange(len(words))
            rows.append([4 + (first + n) % len(words) for n in range(draw.randint(3, 9))] + [2])
            if number % 4 == 3:
                rows.append([2])  # an empty line: the end of a document
        write_bin(folder / split, rows)
    return folder


def train(data, save_dir, *flags):
    """fairseq-train; later flags win."""
    return run_here("fairseq-train", data, *flags, "--save-dir", save_dir)


def pretrain(data, save_dir, *flags):
    """fairseq-train on masked words."""
    return train(data, save_dir, *MODEL, *PRETRAINING, *flags)


def records(process):
    """The JSON records in fairseq's log; ``kind`` is train_inner, train or valid."""
    lines = re.findall(r"[|[] ?(train_inner|train|valid)\b.*?({.*})$", process.stdout, re.MULTILINE)
    return [{"kind": kind, **json.loads(record)} for kind, record in lines]


def losses(process):
    """The loss of each update."""
    return [float(r["loss"]) for r in records(process) if r["kind"] == "train_inner"]


def weights(path):
    """The model's tensors in a checkpoint."""
    return torch.load(path, map_location="cpu", weights_only=False)["model"]


def assert_same_weights(path, other, atol=0.0):
    ours, theirs = weights(path), weights(other)
    assert sorted(ours) == sorted(theirs)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=atol)


def write_glue(folder, name):
    """A GLUE task's data folder: random words; the label mostly depends on the first one."""
    sizes = {"train": 53, "valid": 23, "test": 9}
    splits = {s: sizes[s.rstrip("1")] for s in GLUE_TASKS[name].files if s != "test1"}
    lines = [f"{word} 1" for word in WORDS]
    return write_task(folder, name, random_rows(name, len(WORDS), splits), lines, MAX_POSITIONS)


def finetuning(name, metric=None):
    """The flags to fine-tune on a GLUE task, or with ``metric`` on a user's task of its kind."""
    task = GLUE_TASKS[name]
    return [
        *MODEL, *OPTIMIZATION, "--rel-pos", "--task", "glue_sentence_prediction", "--criterion",
        "glue_sentence_prediction", "--num-classes", task.num_classes,
        *(["--metrics", metric] if metric else ["--glue-task", name]),
        *(["--regression-target"] if (not task.labels) else []),
        "--max-positions", MAX_POSITIONS, "--batch-size", 8, "--no-epoch-checkpoints",
        "--best-checkpoint-metric", metric or task.selection, "--maximize-best-checkpoint-metric",
    ]  # fmt: skip


def build(data, *flags):
    """Task, model and criterion of fairseq-train with such flags."""
    from fairseq import options, tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    words = [str(word) for word in (data, *flags)]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)
    return task, task.build_model(cfg.model), task.build_criterion(cfg.criterion)


def batches(task, split, size):
    """The batches of a split, in order."""
    iterator = task.get_batch_iterator(task.load_dataset(split), max_sentences=size)
    return list(iterator.next_epoch_itr(shuffle=False))
