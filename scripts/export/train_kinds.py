"""Trains a small model of a kind: a few updates, and then positions that matter."""

import shutil

import torch
from kinds import FINE_TUNED, PRETRAINED, SIZE
from running import USER_DIR, run

from tupe_fairseq.files.vocabulary_files import copy_vocabulary

TRAINING = [
    "--user-dir", USER_DIR, "--arch", "tupe_roberta_tiny", *SIZE,
    "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", 1e-6,
    "--weight-decay", 0.01, "--clip-norm", 1.0, "--lr", 3e-3, "--lr-scheduler", "polynomial_decay",
    "--warmup-updates", 5, "--total-num-update", 100, "--required-batch-size-multiple", 1,
    "--no-epoch-checkpoints", "--disable-validation", "--num-workers", 0, "--data-buffer-size", 0,
    "--log-format", "simple", "--log-interval", 10, "--seed", 1, "--cpu",
]  # fmt: skip
MASKED_LM = [
    "--task", "masked_lm", "--criterion", "masked_lm", "--sample-break-mode", "complete",
    "--tokens-per-sample", 128, "--skip-invalid-size-inputs-valid-test", "--batch-size", 8,
    "--max-update", 30,
]  # fmt: skip
GLUE = [
    "--task", "glue_sentence_prediction", "--criterion", "glue_sentence_prediction",
    "--find-unused-parameters", "--batch-size", 16, "--max-update", 20,
]  # fmt: skip
CHECKPOINT = "checkpoint_last.pt"
# the projections of the words, too: some encodings act on what they make
POSITIONS = (".position_bias.", ".self_attn.position.", ".self_attn.in_proj_")
HEADS = ("classification_heads.",)


def pretrain(name, data, out):
    """OUT/checkpoint_last.pt with its vocabulary beside it."""
    run("fairseq-train", data, *TRAINING, *MASKED_LM, *PRETRAINED[name], "--save-dir", out)
    strengthen(out / CHECKPOINT, POSITIONS, 0.3)
    for beside in ("dict.txt", "sentencepiece.bpe.model", "report.json"):
        shutil.copy(data / beside, out / beside)


def fine_tune(name, glue, start, out):
    """The same for a model that has learned a task of GLUE from the checkpoint ``start``."""
    task = FINE_TUNED[name]
    data = glue / task
    regression = ["--num-classes", 1, "--regression-target"] if task == "STS-B" else []
    metric = "pearson_spearman" if task == "STS-B" else "mcc"
    run(
        "fairseq-train", data, *TRAINING, *GLUE, "--glue-task", task,
        *(regression or ["--num-classes", 2]), *PRETRAINED["tupe-r"],
        "--best-checkpoint-metric", metric, "--maximize-best-checkpoint-metric",
        "--finetune-from-model", start, "--save-dir", out,
    )  # fmt: skip
    strengthen(out / CHECKPOINT, HEADS, 0.6)
    copy_vocabulary(str(data), str(out))


def strengthen(path, parts, size):
    """Make parameters of a checkpoint large, as a long training does.

    After a few updates those of positions are still so small that a folder without them would
    hardly differ; and a head is no more than the frequencies of the classes.

    Args:
        path (Path): the checkpoint, which is written again.
        parts (tuple of str): what the names of the parameters contain, one of these.
        size (float): the standard deviation of what is added to them.
    """
    state = torch.load(path, map_location="cpu", weights_only=False)
    generator = torch.Generator().manual_seed(1)
    for name, tensor in state["model"].items():
        if any(part in name for part in parts) and tensor.is_floating_point():
            tensor += size * torch.randn(tensor.shape, generator=generator)
    torch.save(state, path)
