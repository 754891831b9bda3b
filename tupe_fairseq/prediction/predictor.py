"""Predictions of a fine-tuned model for texts."""

from typing import Any, List, Sequence, Tuple

from tupe_fairseq.prediction.answers import answers
from tupe_fairseq.prediction.batched_encoder import BatchedEncoder
from tupe_fairseq.prediction.text_sequences import Counts, TextSequences
from tupe_fairseq.tasks.task_description import Task


class Predictor:
    """From texts to what a model predicts for them.

    Args:
        task (Task): what the model was trained for.
        to_sequences (TextSequences): encodes the texts.
        run (BatchedEncoder): the model, which gives the outputs of its head.

    Attributes:
        names (tuple of str): of the values of a prediction.
    """

    def __init__(self, task: Task, to_sequences: TextSequences, run: BatchedEncoder):
        self._to_sequences = to_sequences
        self._run = run
        self._answers = answers(task)
        self.names = self._answers.names

    def __call__(self, rows: Sequence[Sequence[str]]) -> Tuple[List[List[Any]], Counts]:
        """The values of each row, and what was read.

        Args:
            rows (sequence): a text each, or two if the task has pairs.
        """
        counts = Counts()
        outputs = self._run(self._to_sequences(rows, counts))
        return [self._answers.of(output) for output in outputs], counts
