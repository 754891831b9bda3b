"""fairseq's programs on tiny models: trainings in this process, and commands in real ones."""

import contextlib
import json
import logging
import os
import random
import socket
import subprocess
import sys
from pathlib import Path
from unittest import mock

import torch

import tupe_fairseq
from helpers.glue_data import random_rows, write_bin, write_task
from tupe_fairseq.data.glue import GLUE_TASKS

REPO = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
# the package under test, which may be installed: --user-dir takes no second copy
USER_DIR = tupe_fairseq.__path__[0]
PARENT = Path(USER_DIR).parent
ENV = {**os.environ, "PYTHONPATH": str(PARENT), "OMP_NUM_THREADS": "1"}
WORDS = [f"w{n}" for n in range(30)]
MAX_POSITIONS = 16
# all different, so that a wrong axis fails
SIZE = [
    "--encoder-layers", 2, "--encoder-embed-dim", 12, "--encoder-ffn-embed-dim", 20,
    "--encoder-attention-heads", 3,
]  # fmt: skip
MODEL = ["--user-dir", USER_DIR, "--arch", "tupe_roberta_tiny", *SIZE]
OPTIMIZATION = [
    "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", 1e-6, "--clip-norm", 1.0,
    "--weight-decay", 0.01, "--lr", 1e-2, "--lr-scheduler", "polynomial_decay",
    "--total-num-update", 40, "--required-batch-size-multiple", 1, "--seed", 3,
    # no reading ahead: a thread that still reads when the process ends can abort it
    "--num-workers", 0, "--data-buffer-size", 0, "--cpu", "--log-format", "json",
    "--log-interval", 1,
]  # fmt: skip
PRETRAINING = [
    *OPTIMIZATION, "--task", "tupe_masked_lm", "--criterion", "masked_lm", "--batch-size", 4,
    "--sample-break-mode", "complete", "--tokens-per-sample", MAX_POSITIONS,
    "--max-positions", MAX_POSITIONS,
    "--skip-invalid-size-inputs-valid-test", "--max-update", 10, "--disable-validation",
    "--no-epoch-checkpoints",
]  # fmt: skip


def write_text_data(folder, sentences=60, words=WORDS):
    """A data folder for masked_lm: each word is the one after the word before it, mostly."""
    draw = random.Random(1)
    folder.mkdir(parents=True)
    (folder / "dict.txt").write_text("".join(f"{word} 1\n" for word in words))
    for split in ("train", "valid"):
        rows = []
        for number in range(sentences):
            first = draw.randrange(len(words))
            rows.append([4 + (first + n) % len(words) for n in range(draw.randint(3, 9))] + [2])
            if number % 4 == 3:
                rows.append([2])  # an empty line: the end of a document
        write_bin(folder / split, rows)
    return folder


def run(*command, check=True, env=None, cwd=None):
    """Run a console script of this environment, or a program, as a user does."""
    command = [str(word) for word in command]
    if (BIN / command[0]).exists():
        command[0] = str(BIN / command[0])
    process = subprocess.run(
        # python -c imports from its folder first
        command, cwd=cwd or PARENT, env={**ENV, **(env or {})}, text=True, timeout=300,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if check and process.returncode:
        raise AssertionError(f"exit code {process.returncode}: {command}\n{process.stdout[-6000:]}")
    return process


def train(data, save_dir, *flags, program="train"):
    """fairseq-train in this process; later flags win. Returns the records of its JSON log."""
    from fairseq import checkpoint_utils
    from fairseq_cli import hydra_train, train

    words = [str(word) for word in flags]
    if program == "train":
        words = [str(data), *words, "--save-dir", str(save_dir)]
    vars(checkpoint_utils.save_checkpoint).pop("best", None)  # of an earlier training
    main = train.cli_main if program == "train" else hydra_train.cli_main
    with mock.patch.object(sys, "argv", ["fairseq", *words]), _records() as records:
        main()
    return records


def pretrain(data, save_dir, *flags):
    """fairseq-train on masked words."""
    return train(data, save_dir, *MODEL, *PRETRAINING, *flags)


@contextlib.contextmanager
def _records():
    """What fairseq's progress bar logs: a dict a line, with the line's kind as "kind"."""
    records = []

    class Handler(logging.Handler):
        def emit(self, record):
            with contextlib.suppress(ValueError):
                records.append({"kind": record.name, **json.loads(record.getMessage())})

    logger, handler = logging.getLogger("fairseq.logging.progress_bar"), Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield records
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def free_port():
    """A TCP port that nothing uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def losses(records):
    """The loss of each update."""
    return [float(record["loss"]) for record in records if record["kind"] == "train_inner"]


def weights(path):
    """The model's tensors in a checkpoint."""
    return torch.load(path, map_location="cpu", weights_only=True)["model"]


def assert_same_weights(path, other, atol=0.0):
    ours, theirs = weights(path), weights(other)
    assert sorted(ours) == sorted(theirs)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=atol)


def write_glue(folder, name, rows=(53, 23, 9)):
    """A GLUE task's data folder: words at random, the label by the first of them."""
    sizes = dict(zip(("train", "valid", "test"), rows))
    splits = {s: sizes[s.rstrip("1")] for s in GLUE_TASKS[name].files if s != "test1"}
    lines = [f"{word} 1" for word in WORDS]
    return write_task(folder, name, random_rows(name, len(WORDS), splits), lines, MAX_POSITIONS)


def finetuning(name):
    """The flags of a fine-tuning on a GLUE task, without its schedule."""
    task = GLUE_TASKS[name]
    return [
        *MODEL, *OPTIMIZATION, "--rel-pos", "--task", "glue_sentence_prediction", "--criterion",
        "glue_sentence_prediction", "--glue-task", name, "--num-classes", task.num_classes,
        *(["--regression-target"] if task.is_regression else []),
        "--max-positions", MAX_POSITIONS, "--batch-size", 8, "--no-epoch-checkpoints",
        "--best-checkpoint-metric", task.selection, "--maximize-best-checkpoint-metric",
    ]  # fmt: skip


def config(data, *flags):
    """What fairseq-train makes of its command line."""
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, [str(word) for word in (data, *flags)])
    return convert_namespace_to_omegaconf(args)


def build(cfg):
    """Task, model and criterion of such a config."""
    from fairseq import tasks

    task = tasks.setup_task(cfg.task)
    return task, task.build_model(cfg.model), task.build_criterion(cfg.criterion)


def batches(task, split, size):
    """The batches of a split, in order."""
    iterator = task.get_batch_iterator(task.load_dataset(split), max_sentences=size)
    return list(iterator.next_epoch_itr(shuffle=False))
