"""The masked-LM loss of one text in samples of several lengths, and by position in the sample.

At every length the same pieces are masked, so that only the context of a piece differs.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.files.markdown import markdown_table
from tupe_fairseq.scoring.pseudo_likelihood import BATCH_TOKENS

#: how many of the pieces are masked, all of them by ``<mask>``
SHARE = 0.15
_SEED = 1
_BOS = 0


def with_chosen(lines: Iterable[list[int]]) -> Iterator[tuple[list[int], list[bool]]]:
    """The tokens of a text, line by line, and which of them are masked: the same in every run.

    Args:
        lines (iterable): tokens with ``<s>`` and ``</s>``; ``<s>`` is left out, as between the
            lines of a sample of fairseq's, and ``</s>`` is never masked.
    """
    draw = random.Random(_SEED)
    for tokens in lines:
        chosen = [draw.random() < SHARE for _ in tokens[1:-1]]
        yield tokens[1:], [*chosen, False]


class LossAtLength:
    """The mean loss of the masked pieces of a text that is cut into samples of one length.

    A sample is ``<s>`` and the next ``length`` - 1 tokens, whatever lines they belong to, as in
    pre-training; the last one may be shorter.  Nothing is padded.  Memory does not grow with the
    text.

    Args:
        model (callable): tokens int64 (B, L) and positions int64 (B, P) -> logits (B, P, V) of
            those positions, as :class:`MaskedWords`.
        mask (int): the id of ``<mask>``.
        length (int): tokens of a sample.
        bin_width (int): positions of a bin of :meth:`to_dict`.
        device (torch.device or str): where the model is.
        batch_tokens (int): tokens of a batch; at least one sample is in it.  Changes only speed.
    """

    def __init__(
        self,
        model: Callable[[Tensor, Tensor], Tensor],
        mask: int,
        length: int,
        bin_width: int,
        device: Any = "cpu",
        batch_tokens: int = BATCH_TOKENS,
    ):
        self.length = length
        self._model = model
        self._mask = mask
        self._bin_width = bin_width
        self._device = device
        self._samples = max(1, batch_tokens // length)
        self._tokens: list[int] = []
        self._chosen: list[bool] = []
        number = -(-length // bin_width)
        self._sums = torch.zeros(number, dtype=torch.float64)
        self._counts = torch.zeros(number, dtype=torch.float64)

    def add(self, tokens: Sequence[int], chosen: Sequence[bool]) -> None:
        """The next tokens of the text, and which of them are masked."""
        self._tokens += tokens
        self._chosen += chosen
        whole = self._samples * (self.length - 1)
        while len(self._tokens) >= whole:
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
        """Measure the first samples that wait, each of ``width`` tokens after ``<s>``."""
        size = samples * width
        text = torch.tensor(self._tokens[:size], device=self._device).view(samples, width)
        chosen = torch.tensor(self._chosen[:size], device=self._device).view(samples, width)
        del self._tokens[:size], self._chosen[:size]
        most = int(chosen.sum(1).max())
        if not most:
            return
        tokens = F.pad(text, (1, 0), value=_BOS)
        chosen = F.pad(chosen, (1, 0), value=False)
        # B x P: the masked places first and in order; the places after them fill the rows
        is_masked, places = torch.sort(chosen.to(torch.uint8), dim=1, descending=True, stable=True)
        is_masked, places = is_masked[:, :most].bool(), places[:, :most]
        logits = self._model(tokens.masked_fill(chosen, self._mask), places)
        losses = F.cross_entropy(
            logits[is_masked].float(), tokens.gather(1, places)[is_masked], reduction="none"
        )
        bins = (places[is_masked] // self._bin_width).cpu()
        self._sums.index_add_(0, bins, losses.double().cpu())
        self._counts.index_add_(0, bins, torch.ones(len(bins), dtype=torch.float64))

    def to_dict(self) -> dict[str, Any]:
        """As recorded in results.json: natural logarithms; a bin's ``to`` is not in it."""
        bins = [
            {
                "from": number * self._bin_width,
                "to": min((number + 1) * self._bin_width, self.length),
                "pieces": int(count),
                "loss": float(total / count) if count else None,
            }
            for number, (total, count) in enumerate(zip(self._sums, self._counts))
        ]
        return {
            "length": self.length,
            "pieces": int(self._counts.sum()),
            "loss": float(self._sums.sum() / self._counts.sum().clamp_min(1)),
            "by_position": bins,
        }


def lengths_table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown of what :meth:`LossAtLength.to_dict` gives for each length."""
    bins = found[-1]["by_position"]
    header = ["tokens of a sample", "loss", *(f"{one['from']} to {one['to'] - 1}" for one in bins)]
    rows = []
    for one in found:
        losses = ["-" if b["loss"] is None else f"{b['loss']:.4f}" for b in one["by_position"]]
        cells = [f"{one['length']:,}", f"{one['loss']:.4f}", *losses]
        rows.append(cells + [""] * (len(header) - len(cells)))
    return markdown_table(header, rows)
