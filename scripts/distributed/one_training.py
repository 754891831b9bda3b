"""The command of one small training, to which each way adds what it needs."""

from pathlib import Path
from typing import List

REPO = Path(__file__).resolve().parents[2]
UPDATES = 50
_CONFIGS = REPO / "examples" / "pretraining" / "config"
_ADAM = [
    "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", 1e-6, "--weight-decay", 0.01
]  # fmt: skip


def words_of(*words) -> List[str]:
    """The words of a command."""
    return [str(word) for word in words]


def preprocess(text: Path, data: Path) -> List[str]:
    """fairseq-preprocess with a word vocabulary."""
    return words_of(
        "fairseq-preprocess", "--only-source", "--trainpref", text / "train.txt",
        "--validpref", text / "valid.txt", "--destdir", data, "--nwordssrc", 600, "--workers", 1,
    )  # fmt: skip


def train(data: Path, save_dir: Path, *flags) -> List[str]:
    """fairseq-train of a small TUPE-R, which saves after every tenth update; later flags win."""
    optimizer = [] if "--optimizer" in flags else _ADAM
    return words_of(
        "fairseq-train", data, "--user-dir", REPO / "tupe_fairseq",
        "--arch", "tupe_roberta_tiny", "--rel-pos", "--encoder-layers", 4,
        "--encoder-embed-dim", 32, "--encoder-ffn-embed-dim", 64, "--encoder-attention-heads", 4,
        "--dropout", 0, "--attention-dropout", 0, "--task", "masked_lm", "--criterion", "masked_lm",
        "--sample-break-mode", "complete", "--tokens-per-sample", 64, "--max-positions", 64,
        "--skip-invalid-size-inputs-valid-test", "--required-batch-size-multiple", 1,
        *optimizer, "--lr", 1e-3, "--lr-scheduler", "polynomial_decay",
        "--warmup-updates", 5, "--total-num-update", 500, "--max-update", UPDATES,
        "--clip-norm", 1.0, "--batch-size", 4, "--save-interval-updates", 10,
        "--save-dir", save_dir, "--num-workers", 0, "--data-buffer-size", 0, "--cpu",
        "--log-format", "json", "--log-interval", 1, "--seed", 7, *flags,
    )  # fmt: skip


def hydra(data: Path, save_dir: Path, *overrides) -> List[str]:
    """fairseq-hydra-train with tupe_tiny of examples/pretraining, cut short."""
    return words_of(
        "fairseq-hydra-train", "--config-dir", _CONFIGS, "--config-name", "tupe_tiny",
        f"common.user_dir={REPO / 'tupe_fairseq'}", f"task.data={data}",
        f"checkpoint.save_dir={save_dir}", f"hydra.run.dir={save_dir}/hydra", "common.cpu=true",
        "checkpoint.save_interval_updates=10", "checkpoint.keep_interval_updates=-1",
        "checkpoint.no_epoch_checkpoints=false", "dataset.batch_size=4",
        f"optimization.max_update={UPDATES}", "lr_scheduler.warmup_updates=5",
        "common.log_format=json", "common.log_interval=1", "dataset.num_workers=0",
        "dataset.data_buffer_size=0", *overrides,
    )  # fmt: skip
