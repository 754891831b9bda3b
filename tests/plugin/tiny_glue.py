"""Small data folders as sentence_prediction reads them, and training on them."""

import copy
import json
import random
from functools import lru_cache

from commands import SIZE, USER_DIR
from conftest import run
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import preprocess

from tupe_fairseq.glue.tasks import GLUE_TASKS

WORDS = [f"w{n}" for n in range(20)]
ROWS = {"train": 53, "valid": 23, "test": 9}
MODEL = ["--user-dir", USER_DIR, "--arch", "tupe_roberta_tiny", "--rel-pos", *SIZE]


def binarize(dictionary, prefixes, destination):
    """fairseq-preprocess, in this process: it spends its time on importing."""
    arguments = ["--only-source", "--srcdict", str(dictionary), "--destdir", str(destination)]
    for name, prefix in prefixes.items():
        arguments += [f"--{name}pref", ",".join(str(path) for path in prefix)]
    preprocess.main(options.get_preprocessing_parser().parse_args(arguments))


def make(name, folder, rows=None, longest=12):
    """The data folder of a GLUE task: words at random, the label by the first word.

    MNLI's further splits are left to the tests that want them; test has no labels.
    """
    task, draw = GLUE_TASKS[name], random.Random(name)
    text = folder / "text"
    text.mkdir(parents=True)
    (text / "dict").write_text("".join(f"{word} 1\n" for word in WORDS))
    (text / "labels").write_text("".join(f"{label} 1\n" for label in task.labels))
    splits = {"train": ["train"], "valid": [s for s in task.files if s.startswith("valid")],
              "test": ["test"]}  # fmt: skip
    inputs = ["input0", "input1"][: len(task.texts)]
    for split in (s for group in splits.values() for s in group):
        lines = {key: [] for key in (*inputs, "label")}
        for _ in range((rows or ROWS)[split.rstrip("1")]):
            sentences = [draw.choices(WORDS, k=draw.randint(1, longest)) for _ in inputs]
            for key, words in zip(inputs, sentences):
                lines[key].append(" ".join(words))
            number = WORDS.index(sentences[0][0])
            labels = task.labels
            label = labels[number % len(labels)] if labels else f"{number / 20 + draw.random()}"
            lines["label"].append(label)
        for key, column in lines.items():
            (text / f"{split}.{key}").write_text("\n".join(column) + "\n")
    for key in inputs:
        prefixes = {n: [text / f"{s}.{key}" for s in group] for n, group in splits.items()}
        binarize(text / "dict", prefixes, folder / key)
    if task.is_regression:
        (folder / "label").mkdir()
        for split in ("train", "valid"):
            (text / f"{split}.label").rename(folder / "label" / f"{split}.label")
    else:
        prefixes = {n: [text / f"{s}.label" for s in splits[n]] for n in ("train", "valid")}
        binarize(text / "labels", prefixes, folder / "label")
    return folder


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
