"""The sequences of a batch: their tokens one after the other, as the layers take them."""

import functools
from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tupe_fairseq.attention.mask import make_mask


class Batch(NamedTuple):
    """Sequences as the rows of a padded batch: (S, n) places for some of the N tokens."""

    shape: tuple[int, int]  # S, n
    tokens: Tensor | None = None  # which of the tokens; None: all of them
    places: Tensor | None = None  # where among the S * n; None: everywhere
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

    def packed_indices(self, tokens: Tensor) -> Tensor:
        """Indices among the S * n -> those among the N."""
        if self.places is None:
            return tokens
        return torch.searchsorted(self.places, tokens).clamp(max=len(self.places) - 1)


class Sequences:
    """The sequences of a padded batch, or its documents, each a sequence of its own.

    Made once for all layers. What Python has to know comes from the device in one transfer, which
    ``lengths`` spare; a batch without masks needs none. While ``torch.export`` runs, or with
    padding in the middle, lengths are not known, and all B * L tokens are kept.

    Args:
        shape (tuple): B and L.
        padding (Tensor, optional): bool (B, L), True = padding.
        document_starts (Tensor, optional): bool (B, L), True = the first token of a document, which
            is encoded as if it were alone in its row.
        least_padding (float): with a smaller share of padding, tokens are not packed.
        lengths (list, optional): the number of tokens of each row, before its padding.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        device: torch.device,
        padding: Tensor | None = None,
        document_starts: Tensor | None = None,
        least_padding: float = 0.0,
        lengths: list[int] | None = None,
    ):
        self.device, self.longest = device, shape[1]
        #: the number of tokens of each sequence, in order, if they follow each other
        self.lengths: list[int] | None = None
        self.order: Tensor | None = None  # of the tokens of all batches
        self.kept: tuple[Callable, Tensor | None, torch.dtype, Any] | None = None
        hidden = None if padding is None else padding[:, None, None, :]
        self.whole = Batch(shape, hidden=hidden)
        self.batches = [self.whole]  # for attention that takes no packed tokens
        if torch.compiler.is_exporting():
            return
        if padding is None and document_starts is None:
            self.lengths = [shape[1]] * shape[0]
        else:
            self._leave_out(padding, document_starts, least_padding, lengths)

    def _leave_out(self, padding, document_starts, least_padding: float, lengths) -> None:
        """Pack the tokens, if all padding is on the right and not too little."""
        has_documents, shape = document_starts is not None, self.whole.shape
        columns = torch.arange(shape[1])
        if lengths is not None and not has_documents:
            padding = columns >= torch.tensor(lengths)[:, None]
        else:
            padding = torch.zeros_like(document_starts) if padding is None else padding
            starts = document_starts if has_documents else padding
            padding, starts = torch.stack((padding, starts)).cpu()  # one transfer
        counts = (~padding).sum(dim=1)
        lengths = counts.tolist()
        num_tokens, num_padding = sum(lengths), padding.numel() - sum(lengths)
        if not padding.equal(columns >= counts[:, None]):
            if (padding[:, 0] & (counts > 0)).any():
                raise ValueError(
                    "a sequence begins with padding; TUPE numbers positions from the left, so pad "
                    "on the right (fairseq's masked_lm and sentence_prediction do)"
                )
            if has_documents:
                raise ValueError("documents can be isolated only where padding is on the right")
            return
        if num_padding and not has_documents and num_padding < least_padding * padding.numel():
            return
        self.whole = Batch(shape)
        self.batches = [self.whole]
        if num_padding:
            places = (~padding).flatten().nonzero().squeeze(1)
            self.whole = Batch(shape, places=places.to(self.device))
        if has_documents:
            begins = (starts | (columns == 0))[~padding].nonzero().squeeze(1)
            lengths = begins.diff(append=begins.new_tensor([num_tokens])).tolist() or [0]
        self.lengths, self.longest = lengths, max([1, *lengths])
        if num_padding or has_documents:
            self._lay_out(lengths, padding.numel())

    def _lay_out(self, lengths: list[int], room: int) -> None:
        """Positions, and batches: one if it fits into ``room``, else of similar lengths.

        Then every sequence takes more than half of its row.
        """
        groups: dict[int, list[int]] = {}
        is_one = len(lengths) * self.longest <= room
        for number, length in enumerate(lengths):
            groups.setdefault(0 if is_one else (length - 1).bit_length(), []).append(number)
        starts, tokens, positions = [0, *accumulate(lengths)], [], []
        self.batches = []
        for group in groups.values():
            longest = max(1, *(lengths[number] for number in group))
            n, start = (torch.tensor([x[number] for number in group]) for x in (lengths, starts))
            columns = torch.arange(longest)
            is_token = columns < n[:, None]
            places = is_token.flatten().nonzero().squeeze(1)
            tokens.append((start[:, None] + columns)[is_token])
            positions.append(places % longest)
            which = None if is_one else tokens[-1].to(self.device)
            if len(places) == is_token.numel():
                self.batches.append(Batch((len(group), longest), which))
            else:
                hidden = (~is_token)[:, None, None, :].to(self.device)
                self.batches.append(
                    Batch((len(group), longest), which, places.to(self.device), hidden)
                )
        of_tokens = torch.cat(positions)
        if not is_one:
            order = torch.cat(tokens).argsort()
            self.order, of_tokens = order.to(self.device), of_tokens[order]
        self.positions = of_tokens.to(self.device)

    @functools.cached_property
    def positions(self) -> Tensor:
        """Those of the N tokens, each counted from the start of its sequence."""
        batch, seq_len = self.whole.shape
        return torch.arange(seq_len, device=self.device).expand(batch, seq_len).flatten()

    def keep(self, prepare: Callable, bias: Tensor | None, dtype: torch.dtype) -> None:
        """Have ``prepared`` give prepare(bias, self, dtype), made once for all layers."""
        self.kept = prepare, bias, dtype, prepare(bias, self, dtype)

    def prepared(self, prepare: Callable, bias: Tensor | None, dtype: torch.dtype):
        # of this very tensor: a layer that activation checkpointing runs again has another one,
        # which gets a gradient of its own
        if (
            self.kept is not None
            and self.kept[1] is bias
            and (self.kept[0], self.kept[2]) == (prepare, dtype)
        ):
            return self.kept[3]
        return prepare(bias, self, dtype)

    def in_batches(self, attend, qkv: Tensor, bias, dtype: torch.dtype, content_bias) -> Tensor:
        """attend(q, k, v, mask) of each batch: (N, 3, H, K) -> (N, H, K)."""
        outs = []
        for batch, mask in zip(self.batches, self.prepared(make_masks, bias, dtype)):
            q, k, v = batch.unpack(qkv).unbind(2)
            if content_bias is not None:
                content = content_bias(q.transpose(1, 2), k.transpose(1, 2))
                mask = content if mask is None else mask + content
            outs.append(batch.pack(attend(q, k, v, mask)))
        return outs[0] if self.order is None else torch.cat(outs).index_select(0, self.order)


def make_masks(
    bias: Tensor | None, sequences: Sequences, dtype: torch.dtype
) -> list[Tensor | None]:
    """The mask of each batch, see ``make_mask``."""
    sizes = [batch.shape[1] for batch in sequences.batches]
    biases = [None if bias is None else bias[..., :n, :n] for n in sizes]
    return [make_mask(b, x.hidden, dtype) for b, x in zip(biases, sequences.batches)]
