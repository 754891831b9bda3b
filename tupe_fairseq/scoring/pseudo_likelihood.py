"""How well a masked language model predicts text: sentence by sentence, and by sample length.

PLL(w) = sum over t of log P(w_t | w without w_t)
Salazar et al. 2020, Eq. (1), https://arxiv.org/abs/1910.14659
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.files.markdown import markdown_table

# tokens of all masked copies of a batch; from 1,024 to 16,384 a CPU is about as fast
BATCH_TOKENS, BATCH_TOKENS_ON_GPU = 8192, 32768
#: share of the tokens that loss_by_length masks
MASKED_SHARE = 0.15
_BOS = 0

#: tokens (B, L) and positions (B, P) -> logits (B, P, V), as ``TrainedModel.masked_logits``
MaskedLogits = Callable[[Tensor, Tensor], Tensor]


def pseudo_likelihoods(
    model: MaskedLogits,
    sentences: Sequence[Sequence[int]],
    mask: int,
    device: Any = "cpu",
    batch_tokens: int = BATCH_TOKENS,
    advance: Callable[[int], Any] = lambda tokens: None,
) -> list[float]:
    """The natural logarithm of PLL for each sentence; 0 for one without tokens.

    A batch holds masked copies of sentences of one length, so nothing is padded.

    Args:
        sentences: tokens with ``<s>`` and ``</s>``, which are not scored.
        advance: is called with the number of tokens that a batch has scored.
    """
    scores = [0.0] * len(sentences)
    by_length: dict[int, list[int]] = {}
    for row, sentence in enumerate(sentences):
        if len(sentence) > 2:
            by_length.setdefault(len(sentence), []).append(row)
    for length, rows in by_length.items():
        tokens = torch.tensor([sentences[row] for row in rows], device=device)
        scored = length - 2
        batches = []
        for copies in torch.arange(len(rows) * scored, device=device).split(
            max(1, batch_tokens // length)
        ):
            logs = _log_probabilities(model, tokens[copies // scored], 1 + copies % scored, mask)
            batches.append(logs.double().cpu())
            advance(len(copies))
        for row, logs in zip(rows, torch.cat(batches).view(-1, scored).tolist()):
            scores[row] = math.fsum(logs)
    return scores


@torch.inference_mode()
def _log_probabilities(model, tokens: Tensor, positions: Tensor, mask: int) -> Tensor:
    """log P of one token of each sequence, given the others. Shape: (B, L), (B) -> (B)."""
    positions = positions[:, None]
    targets = tokens.gather(1, positions)
    logits = model(tokens.scatter(1, positions, mask), positions)[:, 0]
    return -F.cross_entropy(logits, targets[:, 0], reduction="none")


def draw_masked(lines: Iterable[Sequence[int]]) -> Iterator[tuple[Sequence[int], list[bool]]]:
    """The tokens of a text, line by line, and which ones are masked: the same in every run.

    ``<s>`` is left out, as between the lines of fairseq's samples; ``</s>`` is never masked.
    """
    draw = random.Random(1)
    for tokens in lines:
        yield tokens[1:], [*(draw.random() < MASKED_SHARE for _ in tokens[1:-1]), False]


class LossAtLength:
    """The mean loss of the masked tokens of a text that is cut into samples of one length.

    A sample is ``<s>`` and the next ``length`` - 1 tokens, whatever lines they belong to, as in
    pre-training; the last one may be shorter.

    Args:
        bin_width: positions of a bin in :meth:`to_dict`.
    """

    def __init__(
        self,
        model: MaskedLogits,
        mask: int,
        length: int,
        bin_width: int,
        device: Any = "cpu",
        batch_tokens: int = BATCH_TOKENS,
    ):
        self._model, self._mask, self._device = model, mask, device
        self.length, self._bin_width = length, bin_width
        self._samples = max(1, batch_tokens // length)
        self._tokens: list[int] = []
        self._masked: list[bool] = []
        self._sums = torch.zeros(-(-length // bin_width), dtype=torch.float64)
        self._counts = torch.zeros_like(self._sums)

    def add(self, tokens: Sequence[int], masked: Sequence[bool]) -> None:
        """The next tokens of the text."""
        self._tokens += tokens
        self._masked += masked
        while len(self._tokens) >= self._samples * (self.length - 1):
            self._measure(self._samples, self.length - 1)

    def finish(self) -> None:
        """The samples that are left at the end of the text."""
        samples = len(self._tokens) // (self.length - 1)
        if samples:
            self._measure(samples, self.length - 1)
        if self._tokens:
            self._measure(1, len(self._tokens))

    @torch.inference_mode()
    def _measure(self, samples: int, width: int) -> None:
        size = samples * width
        text = torch.tensor(self._tokens[:size], device=self._device).view(samples, width)
        masked = torch.tensor(self._masked[:size], device=self._device).view(samples, width)
        del self._tokens[:size], self._masked[:size]
        most = int(masked.sum(1).max())
        if not most:
            return
        tokens = F.pad(text, (1, 0), value=_BOS)
        masked = F.pad(masked, (1, 0), value=False)
        # (B, P): the masked positions in order; those behind them fill the rows
        is_masked, positions = masked.to(torch.uint8).sort(dim=1, descending=True, stable=True)
        is_masked, positions = is_masked[:, :most].bool(), positions[:, :most]
        logits = self._model(tokens.masked_fill(masked, self._mask), positions)
        losses = F.cross_entropy(
            logits[is_masked].float(), tokens.gather(1, positions)[is_masked], reduction="none"
        )
        bins = (positions[is_masked] // self._bin_width).cpu()
        self._sums.index_add_(0, bins, losses.double().cpu())
        self._counts.index_add_(0, bins, torch.ones(len(bins), dtype=torch.float64))

    def to_dict(self) -> dict[str, Any]:
        """For results.json; a bin's ``to`` is not in it."""
        starts = range(0, self.length, self._bin_width)
        return {
            "length": self.length,
            "pieces": int(self._counts.sum()),
            "loss": float(self._sums.sum() / self._counts.sum().clamp_min(1)),
            "by_position": [
                {
                    "from": start,
                    "to": min(start + self._bin_width, self.length),
                    "pieces": int(count),
                    "loss": float(total / count) if count else None,
                }
                for start, total, count in zip(starts, self._sums, self._counts)
            ],
        }


def lengths_table(results: Sequence[dict[str, Any]]) -> str:
    """Markdown of what :meth:`LossAtLength.to_dict` gives for each length, the longest last."""
    bins = results[-1]["by_position"]
    header = ["tokens of a sample", "loss", *(f"{b['from']} to {b['to'] - 1}" for b in bins)]
    rows = []
    for result in results:
        losses = ["-" if b["loss"] is None else f"{b['loss']:.4f}" for b in result["by_position"]]
        cells = [f"{result['length']:,}", f"{result['loss']:.4f}", *losses]
        rows.append(cells + [""] * (len(header) - len(cells)))
    return markdown_table(header, rows)
