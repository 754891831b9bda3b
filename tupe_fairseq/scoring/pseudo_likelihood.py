"""How well a masked language model predicts sentences.

PLL(w) = sum over t of log P(w_t | w without w_t)
Salazar et al. 2020, Eq. (1), https://arxiv.org/abs/1910.14659
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# tokens of all masked copies in a batch; a CPU is about equally fast from 1,024 to 16,384, but
# glibc keeps the memory of large batches after they are freed
BATCH_TOKENS, BATCH_TOKENS_ON_GPU = 2048, 32768

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
