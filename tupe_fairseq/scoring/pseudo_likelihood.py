"""The pseudo-log-likelihood of sentences under a model that predicts masked words.

PLL(w) = sum over t of log P(w_t | w without w_t).  Source: Salazar et al. 2020, Eq. (1),
https://arxiv.org/abs/1910.14659.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Tokens of all masked copies of a batch; from 1,024 to 16,384 a CPU is about as fast.
BATCH_TOKENS = 8192
# Copies that wait, so that few batches are not full; a hundred bytes each and more.
_WAITING = 1 << 16


def _nothing(copies: int) -> None:
    pass


class PseudoLikelihood:
    """Scores sentences: every piece is masked in turn, and its log-probability summed.

    All copies of a batch have one length, so nothing is padded; copies of several sentences share
    batches.  Only the masked position reaches the LM head.  A sentence that comes twice among
    those that wait is computed once.

    Args:
        model (callable): tokens int64 (B, L) and positions int64 (B, P) -> logits (B, P, V) of
            those positions, as :class:`MaskedWords`.
        mask (int): the id of ``<mask>``.
        device (torch.device or str): where the model is.
        batch_tokens (int): tokens of a batch; at least one copy is in it.  Changes only speed.
        advance (callable): called with the number of copies that a step has done.
    """

    def __init__(
        self,
        model: Callable[[Tensor, Tensor], Tensor],
        mask: int,
        device: Any = "cpu",
        batch_tokens: int = BATCH_TOKENS,
        advance: Callable[[int], None] = _nothing,
    ):
        self._model = model
        self._mask = mask
        self._device = device
        self._batch_tokens = batch_tokens
        self._advance = advance

    def stream(
        self, rows: Iterable[tuple[Any, Sequence[list[int]]]]
    ) -> Iterator[tuple[Any, list[float]]]:
        """Score the sentences of rows of any number, in memory that does not grow with it.

        Args:
            rows (iterable): pairs of anything and the tokens of sentences, each with ``<s>`` at
                its begin and ``</s>`` at its end, which are not masked.
        Returns:
            iterator: the same pairs in order, with scores in place of the sentences.
        """
        waiting: list[tuple[Any, Sequence[list[int]]]] = []
        copies = 0
        for row in rows:
            waiting.append(row)
            copies += sum(len(tokens) for tokens in row[1])
            if copies >= _WAITING:
                yield from self._scored(waiting)
                waiting, copies = [], 0
        yield from self._scored(waiting)

    def _scored(self, rows: Sequence[tuple[Any, Sequence[list[int]]]]):
        every = [tuple(tokens) for _, sentences in rows for tokens in sentences]
        scores = iter(self.scores([list(tokens) for tokens in every]))
        for row, sentences in rows:
            yield row, [next(scores) for _ in sentences]

    def scores(self, sentences: Sequence[list[int]]) -> list[float]:
        """The score of each sentence, in natural logarithms; 0 of one without pieces.

        Args:
            sentences (sequence of list of int): tokens, with ``<s>`` and ``</s>``.
        """
        by_length: dict[int, dict[tuple[int, ...], float]] = {}
        for tokens in sentences:
            by_length.setdefault(len(tokens), {})[tuple(tokens)] = 0.0
        for length, found in by_length.items():
            self._score_equally_long(length, found)
        repeated = sum(len(tokens) - 2 for tokens in sentences)
        repeated -= sum((length - 2) * len(found) for length, found in by_length.items())
        self._advance(repeated)
        return [by_length[len(tokens)][tuple(tokens)] for tokens in sentences]

    def _score_equally_long(self, length: int, found: dict[tuple[int, ...], float]) -> None:
        pieces = length - 2
        if pieces < 1:
            return
        tokens = torch.tensor(list(found), device=self._device)
        total = len(found) * pieces
        size = max(1, self._batch_tokens // length)
        parts = []
        for start in range(0, total, size):
            copies = torch.arange(start, min(start + size, total), device=self._device)
            logs = self._log_probabilities(tokens[copies // pieces], 1 + copies % pieces)
            parts.append(logs.double().cpu())
            self._advance(len(copies))
        every = torch.cat(parts).view(len(found), pieces).tolist()
        for sentence, logs in zip(found, every):
            found[sentence] = math.fsum(logs)

    @torch.inference_mode()
    def _log_probabilities(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """That of one token of each sequence, given the others.

        Shape:
            tokens (B, L), positions (B) -> (B).
        """
        there = positions[:, None]
        targets = tokens.gather(1, there)
        masked = tokens.scatter(1, there, self._mask)
        logits = self._model(masked, there)[:, 0]
        return -F.cross_entropy(logits, targets[:, 0], reduction="none")
