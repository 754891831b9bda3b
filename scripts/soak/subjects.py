"""What is killed: commands that leave files, and what counts in them."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import results

REPO = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Subject:
    """A command, or several that work together.

    Args:
        commands (callable): output folder to a list of commands, each a list of words, of which
            the first is the name of a program.
        result (callable): output folder and log to everything that must not depend on kills.
    """

    commands: Callable[[Path], list[list[str]]]
    result: Callable[[Path, str], dict[str, object]]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _words(*words) -> list[str]:
    return [str(word) for word in words]


def _tupe(name: str, *words) -> list[str]:
    module = f"tupe_fairseq.commands.{name}"
    return _words("python", "-m", module, *words)


def prepare_pretrain(text: Path, valid: Path, out: Path) -> list[str]:
    """tupe-prepare-pretrain on a small text, in several processes."""
    return _tupe(
        "prepare_pretrain", "--input", text, "--valid-input", valid, "--output-dir", out,
        "--vocab-size", 600, "--tokens-per-sample", 64, "--workers", 2, "--test-fraction", 0.02,
    )  # fmt: skip


def prepare_glue(glue: Path, data: Path, out: Path) -> list[str]:
    """tupe-prepare-glue on two tasks."""
    return _tupe(
        "prepare_glue", "--glue-dir", glue, "--tasks", "CoLA,MRPC", "--pretrain-dir", data,
        "--output-dir", out, "--workers", 2,
    )  # fmt: skip


_SIZE = [
    "--encoder-layers", 2, "--encoder-embed-dim", 32, "--encoder-ffn-embed-dim", 64,
    "--encoder-attention-heads", 4,
]  # fmt: skip


def pretrain(data: Path, save_dir: Path, updates: int, *flags) -> list[str]:
    """fairseq-train that validates and saves after every third update, and keeps two of these."""
    return _words(
        "fairseq-train", data, "--user-dir", REPO / "tupe_fairseq",
        "--arch", "tupe_roberta_tiny", *_SIZE, "--task", "masked_lm", "--criterion", "masked_lm",
        "--sample-break-mode", "complete", "--tokens-per-sample", 64, "--max-positions", 64,
        "--skip-invalid-size-inputs-valid-test", "--required-batch-size-multiple", 1,
        "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", 1e-6,
        "--weight-decay", 0.01, "--lr", 1e-2, "--lr-scheduler", "polynomial_decay",
        "--warmup-updates", 5, "--total-num-update", 10 * updates, "--max-update", updates,
        "--clip-norm", 1.0, "--batch-size", 4, "--max-valid-steps", 2,
        "--save-interval-updates", 3, "--keep-interval-updates", 2, "--save-dir", save_dir,
        "--num-workers", 0, "--data-buffer-size", 0, "--cpu", "--log-format", "json",
        "--log-interval", 1, "--seed", 7, *flags,
    )  # fmt: skip


def _gloo(data: Path, save_dir: Path, updates: int, *flags) -> list[list[str]]:
    workers = [
        "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp", "--distributed-no-spawn",
        "--distributed-world-size", 2,
        "--distributed-init-method", f"tcp://127.0.0.1:{_free_port()}",
    ]  # fmt: skip
    return [
        pretrain(data, save_dir, updates, *workers, "--distributed-rank", rank, *flags)
        for rank in range(2)
    ]


def finetune(data: Path, checkpoint: Path, out: Path) -> list[str]:
    """tupe-finetune with two runs of two epochs."""
    return _tupe(
        "finetune", "--data", data, "--checkpoint", checkpoint, "--output-dir", out, "--lrs",
        "1e-3,2e-3", "--seeds", 1, "--epochs", 2, "--batch-size", 64, "--keep-checkpoints", "--cpu",
    )  # fmt: skip


def compare(data: Path, out: Path) -> list[str]:
    """tupe-compare with two schemes."""
    return _tupe(
        "compare", data, "--output-dir", out, "--schemes", "learned; tupe --rel-pos", "--seeds", 1,
        "--updates", 12, "--validate-every", 3, "--batch-size", 8, "--tokens-per-sample", 64,
        "--cpu", "--threads", 1, "--keep-checkpoints", "--train-flags",
        " ".join(map(str, _SIZE)),
    )  # fmt: skip


def subjects(folder: Path, glue: Path, updates: int) -> dict[str, Subject]:
    """All subjects by name.

    Args:
        folder (Path): has text/ and, made once without kills, data/, glue/ and model/.
        glue (Path): the official files.
        updates (int): of each pre-training.
    """
    text, valid = folder / "text" / "train.txt", folder / "text" / "valid.txt"
    data, model = folder / "data", folder / "model" / "checkpoint_last.pt"

    def training(*flags) -> Subject:
        return Subject(
            lambda out: [pretrain(data, out, updates, *flags)],
            lambda out, log: results.of_training(out, log),
        )

    def workers(*flags) -> Subject:
        return Subject(
            lambda out: _gloo(data, out, updates, *flags),
            lambda out, log: results.of_training(out, log),
        )

    def command(make, result) -> Subject:
        return Subject(lambda out: [make(out)], lambda out, log: result(out))

    return {
        "tupe-a": training(),
        "tupe-r": training("--rel-pos"),
        "tupe-a-gloo": workers(),
        "tupe-r-gloo": workers("--rel-pos"),
        "prepare-pretrain": command(
            lambda out: prepare_pretrain(text, valid, out), results.of_files
        ),
        "prepare-glue": command(lambda out: prepare_glue(glue, data, out), results.of_files),
        "finetune": command(
            lambda out: finetune(folder / "glue" / "MRPC", model, out), results.of_finetuning
        ),
        "compare": command(lambda out: compare(data, out), results.of_comparison),
    }


def environment() -> dict[str, str]:
    """For all commands: one thread, this copy of the package."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPO), "PYTHONUNBUFFERED": "1"}
