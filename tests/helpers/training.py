"""fairseq's commands with flags for a tiny model, and reading what they leave behind."""

import json
from concurrent.futures import ThreadPoolExecutor
from socket import socket

import torch

from helpers.running import REPO, USER_DIR, run

SIZE = [
    "--encoder-layers", 2, "--encoder-embed-dim", 32, "--encoder-ffn-embed-dim", 64,
    "--encoder-attention-heads", 4,
]  # fmt: skip
TRAINING = [
    "--user-dir", USER_DIR, "--arch", "tupe_roberta_tiny",
    "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", 1e-6,
    "--weight-decay", 0.01, "--lr", 1e-2, "--lr-scheduler", "polynomial_decay",
    "--warmup-updates", 5, "--total-num-update", 100, "--clip-norm", 1.0, "--num-workers", 0,
    # no reading ahead: a thread that still reads when the process ends can abort it
    "--data-buffer-size", 0, "--cpu", "--log-format", "json", "--log-interval", 1, "--seed", 7,
]  # fmt: skip
PRETRAINING = [
    *TRAINING, *SIZE, "--task", "masked_lm", "--criterion", "masked_lm",
    "--sample-break-mode", "complete", "--tokens-per-sample", 64, "--max-positions", 64,
    "--skip-invalid-size-inputs-valid-test", "--batch-size", 4, "--max-update", 20,
    "--no-epoch-checkpoints", "--disable-validation",
]  # fmt: skip


def pretrain(data, save_dir, *flags, **kwargs):
    """fairseq-train on masked_lm; later flags win."""
    return run("fairseq-train", data, *PRETRAINING, "--save-dir", save_dir, *flags, **kwargs)


def hydra_words(options):
    """Hydra's spelling of the flags of a tiny model."""
    names = [flag[2:].replace("-", "_") for flag in options[::2]]
    return [f"+model.{name}={value}" for name, value in zip(names, options[1::2])]


def hydra(config, data, save_dir, *overrides, **kwargs):
    """fairseq-hydra-train on one of the configs of examples/pretraining."""
    return run(
        "fairseq-hydra-train", "--config-dir", REPO / "examples" / "pretraining" / "config",
        "--config-name", config,
        f"common.user_dir={USER_DIR}", f"task.data={data}", f"checkpoint.save_dir={save_dir}",
        f"hydra.run.dir={save_dir}", "common.cpu=true", "common.log_format=json",
        "common.log_interval=1", "dataset.num_workers=0", "dataset.data_buffer_size=0",
        "dataset.disable_validation=true",
        *overrides, **kwargs,
    )  # fmt: skip


def free_port():
    """A TCP port that nothing uses."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def two_workers(start):
    """Two data-parallel processes on the CPU; each is ``start(*flags)``, which gives its output."""
    flags = [
        "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp",
        "--distributed-no-spawn", "--distributed-world-size", 2,
        "--distributed-init-method", f"tcp://127.0.0.1:{free_port()}",
    ]  # fmt: skip
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda rank: start(*flags, "--distributed-rank", rank), range(2)))


def losses(process):
    """The loss of every update, as fairseq's JSON log prints it."""
    found = {}
    for line in process.stdout.splitlines():
        _, brace, rest = line.partition("{")
        if brace and '"num_updates"' in rest and '"loss"' in rest and "train_loss" not in rest:
            record = json.loads(brace + rest)
            found[int(record["num_updates"])] = float(record["loss"])
    return found


def weights(path):
    """The model's tensors in a checkpoint of our own."""
    return torch.load(path, map_location="cpu")["model"]


def assert_same_weights(path, other, atol=0.0):
    ours, theirs = weights(path), weights(other)
    assert sorted(ours) == sorted(theirs)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=atol)
