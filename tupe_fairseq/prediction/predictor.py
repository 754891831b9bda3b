"""Predictions of a fine-tuned model for texts, whatever it was trained for."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.labelled.task_description import TAGGING, Task
from tupe_fairseq.prediction.batched_encoder import BatchedEncoder
from tupe_fairseq.prediction.row_predictions import answers
from tupe_fairseq.prediction.tagger import Tagger
from tupe_fairseq.prediction.text_sequences import Counts, TextSequences
from tupe_fairseq.text.to_tokens import ToTokens

#: texts of rows, or words of sentences -> the values of each row, and what was read
Predict = Callable[[Sequence[Sequence[str]]], tuple[list[list[Any]], Counts]]


class Predictor:
    """From texts, or pairs of them, to what a model predicts for them.

    Args:
        to_sequences (TextSequences): encodes the texts.
        run (BatchedEncoder): the model, which gives the outputs of its head.
        answer (callable): the outputs for a row, float32 (C) -> its values.
    """

    def __init__(
        self, to_sequences: TextSequences, run: BatchedEncoder, answer: Callable[..., list[Any]]
    ):
        self._to_sequences = to_sequences
        self._run = run
        self._answer = answer

    def __call__(self, rows: Sequence[Sequence[str]]) -> tuple[list[list[Any]], Counts]:
        """The values of each row, and what was read.

        Args:
            rows (sequence): a text each, or two if the task has pairs.
        """
        counts = Counts()
        outputs = self._run(self._to_sequences(rows, counts))
        return [self._answer(output) for output in outputs], counts


def predictor(
    task: Task,
    to_tokens: ToTokens,
    encoder: TupeEncoder,
    head: Callable[[Tensor, Tensor], Tensor],
    batch_tokens: int,
    unpad: bool,
) -> Predict:
    """What predicts for a task; the values are those of :func:`answers`.

    Args:
        task (Task): what the model was trained for.
        to_tokens (ToTokens): encodes text.
        encoder (TupeEncoder): with its word embedding, ``embed_tokens``, in evaluation mode.
        head (callable): hidden states (B, L, D) and which tokens are real, bool (B, L) -> (B, C);
            of words (B, L, C).
        batch_tokens (int), unpad (bool): as :class:`BatchedEncoder`.
    """
    answer, longest = answers(task).of, encoder.config.max_positions
    if task.kind == TAGGING:
        run = BatchedEncoder(
            encoder, lambda hidden, real: head(hidden, real).argmax(dim=-1), batch_tokens, unpad
        )
        return Tagger(to_tokens.words, run, longest, answer)
    run = BatchedEncoder(encoder, head, batch_tokens, unpad)
    return Predictor(TextSequences(to_tokens, longest), run, answer)
