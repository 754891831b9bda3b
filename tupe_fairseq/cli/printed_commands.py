"""The commands to run next, printed for the user to copy into a shell."""

import argparse
import os
import shlex
from collections.abc import Sequence

from tupe_fairseq.options import flag
from tupe_fairseq.provenance import cores
from tupe_fairseq.recipe import PRE_TRAINING
from tupe_fairseq.runs.process import PACKAGE, as_shell

# training_flags leaves these out, because they may change when training continues
_RATES = "dropout attention_dropout activation_dropout pooler_dropout".split()


def masked_lm_training(
    data: str,
    model: Sequence[str],
    *,
    length: int,
    updates: int,
    warmup: int,
    lr: str,
    save_dir: str = "checkpoints",
    user_dir: str | None = None,
) -> list[str]:
    """The command of a training that saves regularly, and resumes if it is run again."""
    return [
        "fairseq-train", data, "--user-dir", user_dir or PACKAGE, *model,
        "--task", "tupe_masked_lm", "--criterion", "masked_lm", "--sample-break-mode", "complete",
        "--tokens-per-sample", str(length), "--skip-invalid-size-inputs-valid-test",
        *PRE_TRAINING, "--lr", lr, "--lr-scheduler", "polynomial_decay",
        "--warmup-updates", str(warmup), "--total-num-update", str(updates),
        "--max-update", str(updates),
        # a multiple of 1: else fairseq's main branch drops a smaller last batch
        "--batch-size", "16", "--required-batch-size-multiple", "1",
        "--save-interval-updates", str(updates // 10), "--keep-interval-updates", "2",
        "--no-epoch-checkpoints", "--save-dir", save_dir,
    ]  # fmt: skip


def finetuning(task: str, vocabulary: str) -> str:
    """The command that trains on a task: the model of a vocabulary's folder, or your training's."""
    model = os.path.join("checkpoints", "checkpoint_best.pt")
    if os.path.exists(os.path.join(vocabulary, "model.pt")):
        model = os.path.join(vocabulary, "model.pt")
    elif os.path.exists(os.path.join(vocabulary, "model.safetensors")):
        model = vocabulary
    return shlex.join(["tupe-finetune", model, "--data", task, "--output-dir", "runs"])


def _own_folder(kind: str, of: str) -> str:
    return f"{kind}-{os.path.basename(os.path.abspath(of))}"


def first_training(data: str, tokens_per_sample: int) -> str:
    """The command that trains a small TUPE-R on new data, in an hour or less on this machine."""
    if _has_gpu():
        arch, updates, lr, further = "tupe_roberta_small", 10_000, "5e-4", ["--fp16"]
    else:
        # such a short training does not overfit, and with dropout it learns only token frequencies
        further = ["--dropout", "0", "--attention-dropout", "0", "--cpu"]
        arch, updates, lr = "tupe_roberta_tiny", 2000, "1.5e-3"
    model = ["--arch", arch, "--rel-pos", "--max-positions", str(tokens_per_sample)]
    command = masked_lm_training(
        data, model, length=tokens_per_sample, updates=updates, warmup=updates // 20, lr=lr
    )
    return _threads() + as_shell([*command, "--log-interval", "50", *further])


def next_command(
    folder: str,
    options: argparse.Namespace,
    data: str | None = None,
    user_dir: str | None = None,
) -> str:
    """The command that trains a checkpoint further, on ``data`` or on data yet to be prepared."""
    from tupe_fairseq.checkpoint.untrusted_options import training_flags
    from tupe_fairseq.data.tokenizer import VOCABULARY

    model, length = os.path.join(folder, "model.pt"), options.max_positions
    # not --restore-file: that would be loaded again when an interrupted run resumes
    flags = [*training_flags(vars(options)), "--finetune-from-model", model]
    for name in _RATES:
        rate = getattr(options, name, None)  # None: the checkpoint does not record it
        if rate is not None:
            flags += [flag(name), str(rate)]
    own_data = _own_folder("data", folder)
    train = masked_lm_training(
        data or own_data, flags, length=length, updates=10_000, warmup=1000, lr="1e-4",
        save_dir=_own_folder("checkpoints", folder), user_dir=user_dir,
    )  # fmt: skip
    maker = "its dict.txt"
    if data:
        maker = "the same vocabulary"
    elif os.path.exists(os.path.join(folder, VOCABULARY)):
        prepare = ["tupe-prepare-pretrain", "--vocabulary", folder]
        prepare += ["--tokens-per-sample", str(length), "--output-dir", own_data]
        maker = shlex.join(prepare)
    return f"# to train it further, on data made with {maker}:\n{_threads()}{as_shell(train)}"


def _threads() -> str:
    """On a CPU, half its cores: two programs that both use all cores take 15 times as long."""
    return "" if _has_gpu() else f"OMP_NUM_THREADS={max(1, cores() // 2)} "


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
