"""What all runs of a task have in common, and where each keeps its files."""

import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

import numpy as np

from tupe_fairseq.files.atomic import read_json
from tupe_fairseq.finetune.command import FineTuning, training_command
from tupe_fairseq.finetune.grid import Run
from tupe_fairseq.finetune.pretrained import Pretrained
from tupe_fairseq.finetune.task_data import TaskData
from tupe_fairseq.glue.tasks import STSB_MAX_SCORE
from tupe_fairseq.training.quiet import quiet


@dataclass(frozen=True)
class Experiment:
    """A task, a model and all that the runs share.

    Args:
        folder (str): RUNS/TASK, absolute.
        data (TaskData): the task's data.
        model (Pretrained): the checkpoint.
        options (FineTuning): the settings.
    """

    folder: str
    data: TaskData
    model: Pretrained
    options: FineTuning

    def path(self, run: Run, *names: str) -> str:
        """A file in the run's folder, or the folder itself."""
        return os.path.join(self.folder, run.name, *names)

    def command(self, run: Run) -> List[str]:
        """The words of the run's fairseq-train command."""
        return training_command(run, self.path(run), self.data, self.model, self.options)

    def result(self, run: Run) -> Optional[Dict[str, Any]]:
        """What a finished run left behind, None if it is not finished."""
        path = self.path(run, "result.json")
        return read_json(path) if os.path.exists(path) else None

    def predict(self, checkpoint: str, split: str) -> np.ndarray:
        """A class index, or a score from 0 to 5, for each row of a split.

        Raises:
            ValueError: if there are not as many as rows.
        """
        # it needs fairseq, which what else is here does not
        from tupe_fairseq.plugin.glue_predict import predict

        with quiet("fairseq", "tupe_fairseq"):
            found = predict(
                checkpoint,
                self.data.folder,
                split,
                self.options.batch_size,
                cpu=self.options.gpus == 0,
            )
        if len(found) != self.data.rows[split]:
            raise ValueError(
                f"{len(found)} predictions for {self.data.rows[split]} rows of {split}"
            )
        if self.data.task.is_regression:
            return np.asarray(found, dtype=np.float64) * STSB_MAX_SCORE
        return np.asarray(found)
