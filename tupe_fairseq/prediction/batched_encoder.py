"""Runs sequences through an encoder in batches of similar length; the results keep their order."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS
from tupe_fairseq.prediction.batches import BATCH_TOKENS, batches_by_length

PAD = BUILT_IN_SYMBOLS.index("<pad>")


class BatchedEncoder:
    """An encoder and what is computed of its hidden states.

    Batches are made of all sequences of a call; so they, and the rounding of what they give, do
    not depend on other calls.

    Args:
        encoder (TupeEncoder): with its word embedding, ``embed_tokens``, in evaluation mode.
        finish (callable): hidden states (B, L, D) and which tokens are real, bool (B, L) -> a
            tensor with B rows.
        batch_tokens (int): tokens of a batch; at least one sequence is in it.  Changes only speed
            and rounding.
        unpad (bool): leave the padding out of all layers.  Changes only speed and rounding.
    """

    def __init__(
        self,
        encoder: TupeEncoder,
        finish: Callable[[Tensor, Tensor], Tensor],
        batch_tokens: int = BATCH_TOKENS,
        unpad: bool = False,
    ):
        encoder.config = dataclasses.replace(encoder.config, unpad=unpad)
        self._encoder = encoder
        self._finish = finish
        self._batch_tokens = batch_tokens

    @torch.inference_mode()
    def __call__(self, sequences: Sequence[list[int]]) -> list[np.ndarray]:
        """What ``finish`` gives for each sequence, float32 or integers.

        Args:
            sequences (sequence of list of int): token ids, each with ``<s>`` at its begin.
        Raises:
            ValueError: if one is longer than the encoder's longest, and positions have a table.
        """
        found: list[Any] = [None] * len(sequences)
        for rows in batches_by_length([len(ids) for ids in sequences], self._batch_tokens):
            results = self._finished([sequences[row] for row in rows])
            results = results.float() if results.is_floating_point() else results
            for row, result in zip(rows, results.cpu().numpy()):
                found[row] = result
        return found

    def _finished(self, batch: list[list[int]]) -> Tensor:
        lengths = np.array([len(ids) for ids in batch])
        real = np.arange(lengths.max()) < lengths[:, None]
        tokens = np.full(real.shape, PAD)
        tokens[real] = np.concatenate(batch)
        embed = self._encoder.embed_tokens
        is_real = torch.from_numpy(real).to(embed.weight.device)
        x = embed(torch.from_numpy(tokens).to(embed.weight.device))
        return self._finish(self._encoder(x, ~is_real), is_real)
