"""The plain fairseq-train command of a run."""

from dataclasses import dataclass
from typing import List

import tupe_fairseq
from tupe_fairseq.finetune.grid import Run
from tupe_fairseq.finetune.pretrained import Pretrained
from tupe_fairseq.finetune.schedule import (
    WARMUP_RATIO,
    batches_per_epoch,
    total_updates,
    warmup_updates,
)
from tupe_fairseq.finetune.task_data import TaskData
from tupe_fairseq.training.words import fairseq_train


@dataclass(frozen=True)
class FineTuning:
    """What the runs of a grid share.

    Args:
        epochs (int): passes over the training set.
        batch_size (int): rows a batch on one GPU.
        update_freq (int): batches of one GPU that are summed for one update.
        gpus (int): how many; 0 for the CPU.
        fp16 (bool): mixed precision, on GPUs.
        dropout (float): probability, of the layers, the attention and the head alike.
        weight_decay (float): Adam's.
        pretrained (bool): whether the checkpoint's weights are loaded.
    """

    epochs: int
    batch_size: int = 32
    update_freq: int = 1
    gpus: int = 1
    fp16: bool = False
    dropout: float = 0.1
    weight_decay: float = 0.01
    pretrained: bool = True

    def updates(self, rows: int) -> int:
        """The updates of a run over a training set of so many rows."""
        batches = batches_per_epoch(rows, self.batch_size, max(1, self.gpus))
        return total_updates(batches, self.epochs, update_freq=[self.update_freq])


def training_command(
    run: Run, save_dir: str, data: TaskData, model: Pretrained, options: FineTuning
) -> List[str]:
    """The words of the command; anyone can run it by hand."""
    task, total = data.task, options.updates(data.rows["train"])
    words = [fairseq_train(), data.folder, "--user-dir", tupe_fairseq.__path__[0]]
    words += ["--task", "glue_sentence_prediction", "--criterion", "glue_sentence_prediction"]
    words += ["--glue-task", task.name, "--num-classes", task.num_classes]
    words += ["--regression-target"] if task.is_regression else []
    words += ["--init-token", 0, "--separator-token", 2]
    words += model.flags
    # the same numbers, in half of the time for sentences of different length
    words += ["--unpad"]
    if options.pretrained:
        # not --restore-file: that would be loaded again when an interrupted run goes on
        words += ["--finetune-from-model", model.path]
    for name in ("--dropout", "--attention-dropout", "--pooler-dropout"):
        words += [name, options.dropout]
    # the authors' settings
    words += ["--optimizer", "adam", "--adam-betas", "(0.9, 0.999)", "--adam-eps", 1e-6]
    words += ["--weight-decay", options.weight_decay, "--clip-norm", 1.0]
    words += ["--lr", run.lr_text, "--lr-scheduler", "polynomial_decay"]
    words += ["--warmup-updates", warmup_updates(WARMUP_RATIO, total), "--total-num-update", total]
    words += ["--max-epoch", options.epochs, "--batch-size", options.batch_size]
    words += ["--update-freq", options.update_freq, "--required-batch-size-multiple", 1]
    words += ["--best-checkpoint-metric", task.selection, "--maximize-best-checkpoint-metric"]
    words += ["--valid-subset", ",".join(data.splits("valid"))]
    words += ["--no-epoch-checkpoints", "--save-dir", save_dir, "--seed", run.seed]
    # no reading ahead: a thread that still reads when the process ends can abort it
    words += ["--num-workers", 0, "--data-buffer-size", 0]
    words += ["--log-format", "json", "--log-interval", 100]
    words += ["--distributed-world-size", max(1, options.gpus)]
    if options.gpus == 0:
        words += ["--cpu"]
    if options.gpus > 1:
        words += ["--find-unused-parameters"]
    if options.fp16:
        words += ["--fp16", "--fp16-init-scale", 4, "--threshold-loss-scale", 1]
        words += ["--fp16-scale-window", 128]
    return [str(word) for word in words]
