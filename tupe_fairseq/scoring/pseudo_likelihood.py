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

from tupe_fairseq.files import markdown_table

# tokens of all masked copies of a batch; from 1,024 to 16,384 a CPU is about as fast; glibc
# keeps the freed blocks of large batches
BATCH_TOKENS, BATCH_TOKENS_ON_GPU = 2048, 32768
#: share of the tokens that draw_masked masks
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


def draw_masked(lines: Iterable[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """The tokens of a text, and which ones are masked: the same in every run.

    ``<s>`` is left out, as between the lines of fairseq's samples; ``</s>`` is never masked.
    Shape: int64 (N), bool (N).
    """
    draw = random.Random(1)
    tokens: list[int] = []
    masked: list[bool] = []
    for line in lines:
        tokens += line[1:]
        masked += [*(draw.random() < MASKED_SHARE for _ in line[1:-1]), False]
    return torch.tensor(tokens), torch.tensor(masked)


@torch.inference_mode()
def loss_at_length(
    model: MaskedLogits,
    text: tuple[Tensor, Tensor],
    mask: int,
    length: int,
    bin_width: int,
    batch_tokens: int = BATCH_TOKENS,
) -> dict[str, Any]:
    """The mean loss of the masked tokens of a text that is cut into samples of one length.

    A sample is ``<s>`` and the next ``length`` - 1 tokens, whatever lines they belong to, as in
    pre-training; the last one may be shorter.

    Args:
        text: as :func:`draw_masked` gives it, on the device of the model.
        bin_width: positions of a bin; the losses are also given by position in the sample.
    """
    sums = torch.zeros(-(-length // bin_width), dtype=torch.float64)
    counts = torch.zeros_like(sums)
    batches = [_samples(x, length - 1, max(1, batch_tokens // length)) for x in text]
    for tokens, masked in zip(*batches):
        most = int(masked.sum(1).max())
        if not most:
            continue
        tokens = F.pad(tokens, (1, 0), value=_BOS)
        masked = F.pad(masked, (1, 0), value=False)
        # (B, P): the masked positions in order; those behind them fill the rows
        is_masked, positions = masked.to(torch.uint8).sort(dim=1, descending=True, stable=True)
        is_masked, positions = is_masked[:, :most].bool(), positions[:, :most]
        logits = model(tokens.masked_fill(masked, mask), positions)
        losses = F.cross_entropy(
            logits[is_masked].float(), tokens.gather(1, positions)[is_masked], reduction="none"
        )
        bins = (positions[is_masked] // bin_width).cpu()
        sums.index_add_(0, bins, losses.double().cpu())
        counts.index_add_(0, bins, torch.ones(len(bins), dtype=torch.float64))
    by_position = [
        {
            "from": start,
            "to": min(start + bin_width, length),  # not in the bin
            "pieces": int(count),
            "loss": float(total / count) if count else None,
        }
        for start, total, count in zip(range(0, length, bin_width), sums, counts)
    ]
    loss = float(sums.sum() / counts.sum().clamp_min(1))
    return {
        "length": length,
        "pieces": int(counts.sum()),
        "loss": loss,
        "by_position": by_position,
    }


def _samples(text: Tensor, width: int, rows: int) -> Iterator[Tensor]:
    """Batches of samples, and the shorter one at the end."""
    whole = len(text) // width * width
    if whole:
        yield from text[:whole].view(-1, width).split(rows)
    if whole < len(text):
        yield text[None, whole:]


def lengths_table(results: Sequence[dict[str, Any]]) -> str:
    """Markdown of what :func:`loss_at_length` gives for each length, the longest last."""
    bins = results[-1]["by_position"]
    header = ["tokens of a sample", "loss", *(f"{b['from']} to {b['to'] - 1}" for b in bins)]
    rows = []
    for result in results:
        losses = ["-" if b["loss"] is None else f"{b['loss']:.4f}" for b in result["by_position"]]
        cells = [f"{result['length']:,}", f"{result['loss']:.4f}", *losses]
        rows.append(cells + [""] * (len(header) - len(cells)))
    return markdown_table(header, rows)
