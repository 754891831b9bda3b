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
    """Fine-tune a checkpoint on a task with several learning rates and seeds, and write scores,
    figures and the best model to RUNS/TASK. The same command resumes. The folder of a run has its
    fairseq-train command, command.sh.

    example: tupe-finetune checkpoints --data glue/CoLA --output-dir runs
    """

    checkpoint: str = option(
        "a pre-trained one, or a folder of tupe-export",
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
        unset=f"2e-5,3e-5,4e-5,5e-5; 2e-5,5e-5 for your own task below {FEW_ROWS} rows; 3e-5 for "
        "folds",
        recorded=False,
    )  # fmt: skip
    seeds: list[int] | None = option(
        "of the head, batches and dropout",
        comma_list(at_least(0)), None,
        unset=f"1,2,3,4,5; 1,2 for your own task below {FEW_ROWS} rows; 1 for folds",
        recorded=False,
    )  # fmt: skip
    epochs: int | None = option(
        "passes over train",
        count, None,
        unset="5 for MNLI, QNLI and QQP, else 10; for your own task 10 to 50, for 300 updates",
    )  # fmt: skip
    patience: int | None = option("end a run after N epochs without a better score", count, None)
    metric: str | None = option(
        f"pick checkpoints by another metric: {', '.join(METRICS)}",
        one_of(*METRICS), None, metavar="NAME",
    )  # fmt: skip
    balance: bool = option("weigh rare classes more in the loss", bool, False, recorded=False)
    batch_size: int = option("rows of a batch", count, 32)
    dropout: float = option("of layers, attention and head", fraction, 0.1)
    no_pretraining: bool = option(
        "for comparison, start from random weights", bool, False, recorded=False
    )
    pooling: str | None = option(
        "what the head takes: <s> or the mean", one_of(*POOLINGS), None, unset="cls"
    )

    def check(self) -> None:
        super().check()
        if self.pooling == "cls":
            self.pooling = None

    def settings(self) -> dict[str, Any]:
        train_flags, pretrained = self.train_flags or None, not self.no_pretraining
        return {**super().settings(), "train_flags": train_flags, "pretrained": pretrained}
