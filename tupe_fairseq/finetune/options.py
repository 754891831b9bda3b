"""The options of tupe-finetune."""

from dataclasses import dataclass
from typing import Any

from tupe_fairseq.checkpoint.options import CheckpointOptions, checkpoint_or_folder
from tupe_fairseq.data.metrics import METRICS
from tupe_fairseq.flags import (
    at_least,
    comma_list,
    count,
    folder_with,
    fraction,
    no_colon,
    one_of,
    option,
    positive,
    writable,
)
from tupe_fairseq.options import POOLINGS
from tupe_fairseq.runs.options import StudyOptions

#: learning rates and seeds: the paper's, for your own task with fewer rows, for each fold
PAPER_GRID = (2e-5, 3e-5, 4e-5, 5e-5), (1, 2, 3, 4, 5)
SMALL_GRID, FEW_ROWS = ((2e-5, 5e-5), (1, 2)), 1000
FOLD_GRID = (3e-5,), (1,)


@dataclass(kw_only=True)
class FinetuneOptions(StudyOptions, CheckpointOptions):
    """Fine-tune a checkpoint on a GLUE task or your own with several learning rates and seeds, and
    write the scores, figures and the best model to RUNS/TASK. Each run is a fairseq-train command
    (command.sh in its folder); finished runs are not repeated.

    example: tupe-finetune checkpoints --data glue/CoLA --output-dir runs
    """

    checkpoint: str = option(
        "a pre-trained checkpoint, or a folder of tupe-export, which is converted first",
        checkpoint_or_folder, positional=True, recorded=False,
    )  # fmt: skip
    data: str = option(
        "folder made by tupe-prepare-glue or tupe-prepare-task",
        no_colon(folder_with("report.json")), metavar="OUT/TASK", recorded=False,
    )  # fmt: skip
    output_dir: str = option(
        "folder for all tasks", no_colon(writable), metavar="RUNS", recorded=False
    )
    lrs: list[float] | None = option(
        "peak learning rates",
        comma_list(positive), None,
        unset="2e-5,3e-5,4e-5,5e-5 as in the paper, 2e-5,5e-5 for your own task with fewer than "
        f"{FEW_ROWS} rows, 3e-5 for folds",
        recorded=False,
    )  # fmt: skip
    seeds: list[int] | None = option(
        "seeds of the new head, the order of batches and dropout",
        comma_list(at_least(0)), None,
        unset="1,2,3,4,5; 1,2 for your own task with fewer rows; 1 for folds",
        recorded=False,
    )  # fmt: skip
    epochs: int | None = option(
        "passes over the training set",
        count, None,
        unset="5 for MNLI, QNLI and QQP, else 10; for your own task enough for 300 updates, but at "
        "least 10 and at most 50",
    )  # fmt: skip
    patience: int | None = option(
        "end a run after N epochs without a better score; does not change the learning rate "
        "schedule",
        count, None,
    )  # fmt: skip
    metric: str | None = option(
        f"pick checkpoints by another metric: {', '.join(METRICS)}",
        one_of(*METRICS), None, metavar="NAME",
    )  # fmt: skip
    balance: bool = option("weigh rare classes more in the loss", bool, False, recorded=False)
    batch_size: int = option("rows of a batch", count, 32)
    dropout: float = option("of layers, attention and head", fraction, 0.1)
    no_pretraining: bool = option(
        "for comparison: start from random weights, in the checkpoint's size", bool, False,
        recorded=False,
    )  # fmt: skip
    pooling: str | None = option(
        "input of the head: the features of <s> (cls), or their mean over all tokens",
        one_of(*POOLINGS), None, unset="cls",
    )  # fmt: skip

    def check(self) -> None:
        super().check()
        if self.pooling == "cls":
            self.pooling = None

    def settings(self) -> dict[str, Any]:
        train_flags, pretrained = self.train_flags or None, not self.no_pretraining
        return {**super().settings(), "train_flags": train_flags, "pretrained": pretrained}
