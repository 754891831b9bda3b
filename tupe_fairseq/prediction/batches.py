"""Batches of sequences of similar length."""

from collections.abc import Iterator, Sequence

#: tokens of a batch on a CPU, padding included, and on a GPU
BATCH_TOKENS, BATCH_TOKENS_ON_GPU = 4096, 32768


def batches_by_length(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Indices of the sequences of each batch, the longest first.

    Args:
        lengths (sequence of int): of the sequences, in tokens.
        batch_tokens (int): the most tokens of a batch, padding included; one sequence may have
            more.
    """
    rows: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if rows and lengths[rows[0]] * (len(rows) + 1) > batch_tokens:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
