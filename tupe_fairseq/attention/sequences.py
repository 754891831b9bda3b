"""The sequences of a batch, whose tokens are packed one after the other for the layers."""

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor


def is_traced(device: torch.device) -> bool:
    """Whether a program is recorded from this batch, which must not contain its numbers."""
    return device.type == "meta" or torch.compiler.is_compiling() or torch.jit.is_tracing()


class Batch(NamedTuple):
    """A padded batch (S, n) of sequences, which holds some or all of the N packed tokens."""

    shape: tuple[int, int]  # S, n
    tokens: Tensor | None = None  # indices of its tokens among the N; None: all
    places: Tensor | None = None  # indices of its tokens among the S * n; None: all
    hidden: Tensor | None = None  # bool (S, 1, 1, n), True = padding

    def unpack(self, x: Tensor) -> Tensor:
        """(N, ...) -> (S, n, ...), zeros at the padding."""
        x = x if self.tokens is None else x.index_select(0, self.tokens)
        if self.places is not None:
            zeros = x.new_zeros(self.shape[0] * self.shape[1], *x.shape[1:])
            x = zeros.index_copy_(0, self.places, x)
        return x.unflatten(0, self.shape)

    def pack(self, x: Tensor) -> Tensor:
        """(S, n, ...) -> its tokens, without the padding."""
        x = x.flatten(0, 1)
        return x if self.places is None else x.index_select(0, self.places)


class Sequences:
    """The sequences of a padded batch: its rows, or with :func:`isolate` their documents.

    Made once for all layers. What Python must know is copied from the device in one transfer, which
    is not needed with ``lengths``, or without padding.

    Args:
        shape (tuple): B and L.
        padding (Tensor, optional): bool (B, L), True = padding.
        lengths (list, optional): the number of tokens of each row, instead of ``padding``.
        least_padding (float): if the share of padding is smaller, it stays among the tokens.
    Attributes:
        lengths (list, optional): the number of tokens of each sequence, in order. None if padding
            is among the N = B * L tokens, because there is little of it, it is not at the end, or
            the model is compiled or exported.
        whole (Batch): the original batch.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        device: torch.device,
        padding: Tensor | None = None,
        *,
        lengths: list[int] | None = None,
        least_padding: float = 0.0,
    ):
        batch, width = shape
        self.device, self.longest = device, width
        self.lengths: list[int] | None = None
        self.whole = Batch(shape, hidden=None if padding is None else padding[:, None, None, :])
        if is_traced(device):
            return
        if padding is None and lengths is None:
            self.lengths = [width] * batch
            return
        lengths = row_lengths(padding) if padding is not None else lengths
        if lengths is None:
            return
        num_padding = batch * width - sum(lengths)
        if 0 < num_padding < least_padding * batch * width:
            if padding is None:
                self.whole = Batch(shape, hidden=_hidden(lengths, width, device))
            return
        self.whole = Batch(shape, places=_places(lengths, width, device))
        self.lengths, self.longest = lengths, max([1, *lengths])

    @property
    def is_full(self) -> bool:
        """Whether all sequences are as long as the longest."""
        return self.lengths is not None and {*self.lengths} <= {self.longest}

    @functools.cached_property
    def positions(self) -> Tensor:
        """The positions of the N tokens, counted from the start of each sequence."""
        if self.lengths is None or self.is_full:
            count = self.whole.shape[0] if self.lengths is None else len(self.lengths)
            return torch.arange(self.longest, device=self.device).expand(count, -1).flatten()
        return _ranges([0] * len(self.lengths), self.lengths, self.device)

    @functools.cached_property
    def batches(self) -> tuple[list[Batch], Tensor | None]:
        """The sequences in padded batches, for attention that takes no packed tokens.

        And indices that put the tokens of all batches in order again; None if they are.
        """
        batch, width = self.whole.shape
        if self.lengths is None or self.lengths == [width] * batch:
            return [self.whole], None
        return _make_batches(self.lengths, batch * width, self.device)


def row_lengths(padding: Tensor) -> list[int] | None:
    """The number of tokens of each row; None if there is padding before a token."""
    # on the device: on the host, torch's threads would wait for data loading processes
    counts = (~padding).sum(dim=1)
    is_token = torch.arange(padding.size(1), device=padding.device) < counts[:, None]
    on_the_left = padding[:, 0] & (counts > 0)
    results = torch.stack([counts, (padding == is_token).any(1), on_the_left])
    lengths, is_wrong, on_the_left = results.tolist()  # one transfer
    if any(on_the_left):
        raise ValueError(
            "a sequence begins with padding; TUPE numbers positions from the left, so pad "
            "on the right (fairseq's masked_lm and sentence_prediction do)"
        )
    return None if any(is_wrong) else lengths


def isolate(sequences: Sequences, document_starts: Tensor) -> None:
    """Make each document a sequence, which is encoded as if it were alone in its row.

    Shape: document_starts bool (B, L), True = the first token of a document.
    """
    if sequences.lengths is None:
        raise ValueError("documents can be isolated only where padding is on the right")
    starts = document_starts.clone()
    starts[:, 0] = True
    firsts = sequences.whole.pack(starts).nonzero().squeeze(1).tolist()
    ends = [*firsts, sum(sequences.lengths)]
    sequences.lengths = [b - a for a, b in itertools.pairwise(ends)] or [0]
    sequences.longest = max([1, *sequences.lengths])


def _make_batches(
    lengths: list[int], room: int, device: torch.device
) -> tuple[list[Batch], Tensor | None]:
    """One batch if it fits into ``room``, else batches of similar lengths; and the tokens' order.

    In the second case every sequence fills more than half of its row.
    """
    firsts, groups = [0, *itertools.accumulate(lengths)], defaultdict(list)
    is_one = len(lengths) * max([1, *lengths]) <= room
    for number, length in enumerate(lengths):
        groups[is_one or (length - 1).bit_length()].append(number)
    batches, all_tokens = [], []
    for group in groups.values():
        own = [lengths[x] for x in group]
        width = max([1, *own])
        if not is_one:
            all_tokens.append(_ranges([firsts[x] for x in group], own, device))
        places = _places(own, width, device)
        hidden = None if places is None else _hidden(own, width, device)
        tokens = None if is_one else all_tokens[-1]
        batches.append(Batch((len(group), width), tokens, places, hidden))
    return batches, None if is_one else torch.cat(all_tokens).argsort()


def _ranges(starts: Iterable[int], lengths: list[int], device: torch.device) -> Tensor:
    """The ranges start, start + 1, .. of each start and length, one after the other."""
    size = sum(lengths)
    first, count = to_device(torch.tensor([[*starts], lengths]), device)
    first = first - (count.cumsum(0) - count)
    return torch.arange(size, device=device) + first.repeat_interleave(count, output_size=size)


def _places(lengths: list[int], width: int, device: torch.device) -> Tensor | None:
    """Indices of the tokens in rows of ``width``; None if all rows are full."""
    if {*lengths} <= {width}:
        return None
    return _ranges(range(0, width * len(lengths), width), lengths, device)


def _hidden(lengths: list[int], width: int, device: torch.device) -> Tensor:
    counts = to_device(torch.tensor(lengths), device)
    return (torch.arange(width, device=device) >= counts[:, None])[:, None, None, :]


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """Copy from the host without waiting for the work that a GPU still has to do."""
    return x.to(device, non_blocking=device.type == "cuda")
