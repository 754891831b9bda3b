"""Training on small GLUE folders with the plugin's task and criterion."""

import copy
import json
from functools import lru_cache

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from helpers.glue_data import random_rows, write_task
from helpers.running import USER_DIR, run
from helpers.training import SIZE
from tupe_fairseq.data.glue import GLUE_TASKS

WORDS = [f"w{n}" for n in range(20)]
ROWS = {"train": 53, "valid": 23, "test": 9}
MODEL = ["--user-dir", USER_DIR, "--arch", "tupe_roberta_tiny", "--rel-pos", *SIZE]


def rows_of(name, longest=12):
    """The rows of a task; MNLI's further test set is left out."""
    splits = [split for split in GLUE_TASKS[name].files if split != "test1"]
    rows = {split: ROWS[split.rstrip("1")] for split in splits}
    return random_rows(name, len(WORDS), rows, longest)


def make(name, folder, longest=12):
    """The data folder of a GLUE task: words at random, the label by the first word."""
    lines = [f"{word} 1" for word in WORDS]
    return write_task(folder, name, rows_of(name, longest), lines, max_positions=32)


def finetuning(name):
    """The flags of fairseq-train for a tiny model on a GLUE task, without a schedule."""
    task = GLUE_TASKS[name]
    return [
        *MODEL, "--task", "glue_sentence_prediction", "--criterion", "glue_sentence_prediction",
        "--glue-task", name, "--num-classes", task.num_classes,
        *(["--regression-target"] if task.is_regression else []),
        "--max-positions", 32, "--batch-size", 8, "--required-batch-size-multiple", 1,
        "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", 1e-6,
        "--weight-decay", 0.01, "--clip-norm", 1.0, "--lr", 1e-2, "--no-epoch-checkpoints",
        "--best-checkpoint-metric", task.selection, "--maximize-best-checkpoint-metric",
        "--num-workers", 0, "--data-buffer-size", 0, "--cpu", "--seed", 3,
        "--log-format", "json", "--log-interval", 1,
    ]  # fmt: skip


RATIO = ["--lr-scheduler", "polynomial_decay_ratio", "--warmup-ratio"]


def train(name, data, save_dir, *flags, **kwargs):
    """fairseq-train on a GLUE task; later flags win."""
    return run("fairseq-train", data, *finetuning(name), "--save-dir", save_dir, *flags, **kwargs)


@lru_cache(None)
def _command_line():
    words = ["data", *finetuning("CoLA"), *RATIO, 0.1, "--max-epoch", 2]
    parser = options.get_training_parser()
    return convert_namespace_to_omegaconf(
        options.parse_args_and_arch(parser, list(map(str, words)))
    )


def config(name, data, changes=()):
    """What fairseq-train makes of its command line, composed once: that takes seconds.

    Args:
        changes (dict): "group.option" to value.
    """
    task, cfg = GLUE_TASKS[name], copy.deepcopy(_command_line())
    options = {
        "task.data": str(data),
        "task.num_classes": task.num_classes,
        "task.regression_target": task.is_regression,
        "criterion.regression_target": task.is_regression,
        "criterion.glue_task": name,
        **dict(changes),
    }
    for option, value in options.items():
        group, key = option.split(".")
        cfg[group][key] = value
    return cfg


def records(process, key):
    """The records of fairseq's JSON log that hold a key, in their order."""
    found = []
    for line in process.stdout.splitlines():
        _, brace, rest = line.partition("{")
        if brace and f'"{key}"' in rest:
            found.append(json.loads(brace + rest))
    return found
