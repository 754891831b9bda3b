"""Vectors and predictions for any number of texts, in batches of similar length."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tupe_fairseq.data.dictionary import PAD, UNK
from tupe_fairseq.data.tokenizer import Tokenizer
from tupe_fairseq.data.truncation import join_texts
from tupe_fairseq.labelled.task import Task
from tupe_fairseq.modules.heads import POOLINGS

#: tokens of a batch, padding included
BATCH_TOKENS = {"cpu": 2048, "gpu": 32768}

#: the texts of each row; for tagging, the words of a sentence
Rows = Sequence[Sequence[str]]
#: the same as tokens
TokenRows = Sequence[Sequence[list[int]]]
#: hidden states (B, L, D) and real tokens, bool (B, L) -> a tensor with B rows
Finish = Callable[[Tensor, Tensor], Tensor]


def embed(
    rows: Rows,
    tokenizer: Tokenizer,
    encoder: Any,
    pooling: str = "mean",
    counts: Counter | None = None,
) -> list[np.ndarray]:
    """The vector of each row, float32 (D), by one of ``POOLINGS``. Long rows are truncated.

    Adds the numbers of rows, tokens, unknown tokens, truncated and empty rows to ``counts``.
    """
    encoded = tokenizer.encode_rows(rows)
    samples = [join_texts(texts, encoder.config.max_positions) for texts in encoded]
    for texts, sample in zip(encoded, samples):
        _count(counts, texts, truncated=not sample.is_whole)
    return run(encoder, [sample.tokens for sample in samples], POOLINGS[pooling])


def logits_of_tokens(
    rows: TokenRows,
    task: Task,
    encoder: Any,
    head: Finish,
    counts: Counter | None = None,
) -> list[np.ndarray]:
    """The head's outputs for each row, float32 (C); for tagging, those of its words, (words, C).

    ``rows`` are those of ``Tokenizer.encode_rows``, by the kind's ``of_words``.
    """
    samples = [task.kind.samples(texts, encoder.config.max_positions) for texts in rows]
    name = "in_windows" if task.kind.of_words else "truncated"
    for texts, of_row in zip(rows, samples):
        _count(counts, texts, **{name: not all(sample.is_whole for sample in of_row)})
    outputs = iter(run(encoder, [sample.tokens for of_row in samples for sample in of_row], head))
    if not task.kind.of_words:
        return list(outputs)
    no_words = np.zeros((0, task.num_classes), np.float32)
    return [
        np.concatenate([no_words, *(next(outputs)[sample.starts] for sample in of_row)])
        for of_row in samples
    ]


def _count(counts: Counter | None, texts: Sequence[list[int]], **more: int) -> None:
    if counts is not None:
        tokens, unknown = sum(map(len, texts)), sum(ids.count(UNK) for ids in texts)
        counts.update(rows=1, tokens=tokens, unknown=unknown, empty=not all(texts), **more)


@torch.inference_mode()
def run(encoder: Any, sequences: Sequence[Sequence[int]], finish: Finish) -> list[np.ndarray]:
    """The result of ``finish`` for each sequence of tokens, in their order.

    The encoder has its word embedding, ``embed_tokens``, and is in evaluation mode. Batches only
    depend on these sequences.
    """
    results: list[Any] = [None] * len(sequences)
    device = encoder.embed_tokens.weight.device
    batch_tokens = BATCH_TOKENS["cpu" if device.type == "cpu" else "gpu"]
    for rows in batches_by_length([len(ids) for ids in sequences], batch_tokens):
        lengths = np.array([len(sequences[row]) for row in rows])
        real = np.arange(lengths.max()) < lengths[:, None]
        tokens = np.full(real.shape, PAD)
        tokens[real] = np.concatenate([sequences[row] for row in rows])
        is_real = torch.from_numpy(real).to(device)
        hidden = encoder(encoder.embed_tokens(torch.from_numpy(tokens).to(device)), ~is_real)
        outputs = finish(hidden, is_real)
        outputs = outputs.float() if outputs.is_floating_point() else outputs
        for row, output in zip(rows, outputs.cpu().numpy()):
            results[row] = output
    return results


def batches_by_length(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """The indices of each batch's sequences, longest first; a batch has at least one."""
    rows: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if rows and lengths[rows[0]] * (len(rows) + 1) > batch_tokens:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
