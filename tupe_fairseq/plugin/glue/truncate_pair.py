"""Truncates a sentence or a pair of sentences to the model's longest sequence."""

from typing import Tuple

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset

from tupe_fairseq.labelled.pair_lengths import pair_lengths


class ShortenedDataset(BaseWrapperDataset):
    """Sequences cut to given sizes; each keeps its first tokens and its last one, ``</s>``.

    Args:
        dataset (FairseqDataset): the sequences, each a tensor that ends with ``</s>``.
        sizes (array of int): the size to keep of each, ``</s>`` included, 1 or more.
    """

    def __init__(self, dataset, sizes: np.ndarray):
        super().__init__(dataset)
        self._sizes = np.asarray(sizes)

    def __getitem__(self, index):
        item, size = self.dataset[index], self._sizes[index]
        return item if len(item) <= size else torch.cat([item[: size - 1], item[-1:]])

    @property
    def sizes(self):
        return self._sizes

    def num_tokens(self, index):
        return self._sizes[index]

    def size(self, index):
        return self._sizes[index]


def shorten(inputs, limit: int) -> Tuple[list, np.ndarray]:
    """Shorten the one or two sentences of every row to a number of tokens.

    Args:
        inputs (list of FairseqDataset): the first and perhaps the second sentences, each of which
            ends with ``</s>``; that token is always kept.
        limit (int): the tokens that the sentences of a row may have together.
    Returns:
        the datasets, and for every row whether it was too long.
    Raises:
        ValueError: if the limit leaves no room for the ``</s>`` of each sentence.
    """
    room = limit - len(inputs)
    if room < 0:
        raise ValueError(
            f"{limit} tokens for {len(inputs)} sentences leave no room even for their "
            "</s>; raise --max-positions"
        )
    words = [np.asarray(dataset.sizes) - 1 for dataset in inputs]
    if len(inputs) == 1:
        kept = [np.minimum(words[0], room)]
    else:
        kept = pair_lengths(words[0], words[1], room)
    shortened = [ShortenedDataset(dataset, n + 1) for dataset, n in zip(inputs, kept)]
    return shortened, sum(words) > room
