"""The sequences of a batch: their tokens one after the other, as the layers take them."""

import functools
from collections import defaultdict
from typing import NamedTuple

import torch
from torch import Tensor

Masks = tuple[Tensor | None, ...]  # what an implementation of attention makes of the bias


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

    def pack_indices(self, indices: Tensor) -> Tensor:
        """Of the S * n -> of the N; those of padding become that of some token."""
        if self.places is None:
            return indices
        packed = self.places.new_zeros(self.shape[0] * self.shape[1])
        numbers = torch.arange(len(self.places), device=packed.device)
        return packed.index_copy_(0, self.places, numbers).index_select(0, indices)


class Sequences:
    """The sequences of a padded batch, or its documents, each a sequence of its own.

    Made once for all layers. What Python has to know comes from the device in one transfer, which
    ``row_lengths`` spare; a batch without masks needs none.

    Args:
        shape (tuple): B and L.
        padding (Tensor, optional): bool (B, L), True = padding.
        document_starts (Tensor, optional): bool (B, L), True = the first token of a document, which
            is encoded as if it were alone in its row.
        row_lengths (list, optional): in place of ``padding``, the number of tokens of each row.
        least_padding (float): with a smaller share of padding, it stays among the tokens.
    Attributes:
        lengths (list, optional): the number of tokens of each sequence, in order. None: padding is
            among the N = B * L tokens, because it is little, in the middle, or not known while
            ``torch.export`` runs.
        whole (Batch): the rows of the batch.
        batches (list): the sequences, for attention that takes no packed tokens.
        order (Tensor, optional): that of the tokens of all ``batches``.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        device: torch.device,
        padding: Tensor | None = None,
        document_starts: Tensor | None = None,
        *,
        row_lengths: list[int] | None = None,
        least_padding: float = 0.0,
    ):
        self.device, self.longest = device, shape[1]
        self.lengths: list[int] | None = None
        self.whole = Batch(shape, hidden=None if padding is None else padding[:, None, None, :])
        if torch.compiler.is_exporting():
            if document_starts is not None or row_lengths is not None:
                raise ValueError("torch.export would fix the documents or lengths of this batch")
        elif padding is None and document_starts is None and row_lengths is None:
            self.lengths = [shape[1]] * shape[0]
        else:
            self._leave_out_padding(padding, document_starts, row_lengths, least_padding)
        self.batches, self.order = [self.whole], None
        if self.lengths is not None and self.lengths != [shape[1]] * shape[0]:
            self.batches, self.order = _make_batches(self.lengths, shape[0] * shape[1], device)

    def _leave_out_padding(self, padding, starts, row_lengths, least_padding: float) -> None:
        shape = self.whole.shape
        columns, is_token = torch.arange(shape[1]), torch.ones(shape, dtype=torch.bool)
        masks = [x for x in (padding, starts) if x is not None]
        masks = [*torch.stack(masks).cpu()] if masks else []  # one transfer
        if row_lengths is not None:
            is_token = columns < torch.tensor(row_lengths)[:, None]
        elif padding is not None:
            is_token = ~masks[0]
        counts = is_token.sum(dim=1)
        is_right = is_token.equal(columns < counts[:, None])
        if not is_right and (~is_token[:, 0] & (counts > 0)).any():
            raise ValueError(
                "a sequence begins with padding; TUPE numbers positions from the left, so pad on "
                "the right (fairseq's masked_lm and sentence_prediction do)"
            )
        if not is_right and starts is not None:
            raise ValueError("documents can be isolated only where padding is on the right")
        lengths = counts.tolist()
        num_padding = is_token.numel() - sum(lengths)
        if not is_right or (starts is None and 0 < num_padding < least_padding * is_token.numel()):
            if padding is None:
                self.whole = Batch(shape, hidden=_hidden(is_token, self.device))
            return
        if starts is not None:
            masks[-1][:, 0] = True
            firsts = masks[-1][is_token].nonzero().squeeze(1)
            lengths = firsts.diff(append=firsts.new_tensor([sum(lengths)])).tolist() or [0]
        self.lengths, self.longest = lengths, max([1, *lengths])
        self.whole = Batch(shape, places=_places(is_token, self.device))

    @property
    def is_full(self) -> bool:
        """Whether all sequences are as long as the longest."""
        return self.lengths is not None and {*self.lengths} <= {self.longest}

    @functools.cached_property
    def positions(self) -> Tensor:
        """Those of the N tokens, each counted from the start of its sequence."""
        if self.lengths is None or self.is_full:
            count = self.whole.shape[0] if self.lengths is None else len(self.lengths)
            return torch.arange(self.longest, device=self.device).expand(count, -1).flatten()
        lengths = torch.tensor(self.lengths)
        firsts = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
        return to_device(torch.arange(len(firsts)) - firsts, self.device)


def _make_batches(
    lengths: list[int], room: int, device: torch.device
) -> tuple[list[Batch], Tensor | None]:
    """One batch if it fits into ``room``, else some of similar lengths, and their tokens' order.

    Then every sequence takes more than half of its row.
    """
    sizes, groups = torch.tensor(lengths), defaultdict(list)
    firsts, is_one = sizes.cumsum(0) - sizes, len(lengths) * max([1, *lengths]) <= room
    for number, length in enumerate(lengths):
        groups[is_one or (length - 1).bit_length()].append(number)
    batches, all_tokens = [], []
    for group in groups.values():
        columns = torch.arange(max(1, int(sizes[group].max())))
        is_token = columns < sizes[group, None]
        tokens = (firsts[group, None] + columns)[is_token]
        batches.append(
            Batch(
                (len(group), len(columns)),
                None if is_one else to_device(tokens, device),
                _places(is_token, device),
                None if is_token.all() else _hidden(is_token, device),
            )
        )
        all_tokens.append(tokens)
    return batches, None if is_one else to_device(torch.cat(all_tokens).argsort(), device)


def _places(is_token: Tensor, device: torch.device) -> Tensor | None:
    return None if is_token.all() else to_device(is_token.flatten().nonzero().squeeze(1), device)


def _hidden(is_token: Tensor, device: torch.device) -> Tensor:
    return to_device(~is_token, device)[:, None, None, :]


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """A copy from the host, which does not wait for what a GPU does before."""
    return x.to(device, non_blocking=device.type == "cuda")
