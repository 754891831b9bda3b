"""Which tokens of a batch are padding, and which belong to one document."""

import functools

import torch
from torch import Tensor

from tupe_fairseq.position.positions import Positions


class Padding:
    """The tokens of a padded batch, whose rows are sequences or several documents each.

    Made once for all layers: what Python has to know comes from the device in one transfer. While
    ``torch.export`` runs, none of it is known.

    Args:
        mask (Tensor): bool (B, L), True = padding.
        document_starts (Tensor, optional): bool (B, L), True = the first token of a document, which
            is encoded as if it were alone in its row.
    """

    def __init__(self, mask: Tensor, document_starts: Tensor | None = None):
        self.mask = mask
        #: whether all padding is at the end of its row, so that tokens can be packed
        self.is_on_right = False
        #: the number of tokens of each sequence, or of each document, in order, if it is
        self.lengths: list[int] = []
        #: the number of each token's document in its row, (B, L); None if a row is one sequence
        self.documents: Tensor | None = None
        self.positions: Positions = mask.size(1)
        self.any = True
        if torch.compiler.is_exporting():
            return
        counts = (~mask).sum(dim=1)
        places = torch.arange(mask.size(1), device=mask.device)
        at_end = (mask == (places >= counts[:, None])).all()
        at_start = (mask[:, 0] & ~mask.all(dim=1)).any()
        *lengths, at_end, at_start = torch.cat([counts, at_end[None], at_start[None]]).tolist()
        if at_start:
            raise ValueError(
                "a sequence begins with padding; TUPE numbers positions from the left, so pad on "
                "the right (fairseq's masked_lm and sentence_prediction do)"
            )
        self.any = sum(lengths) < mask.numel()
        self.is_on_right = bool(at_end)
        self.lengths = lengths if at_end else []
        if document_starts is None:
            return
        if not at_end:
            raise ValueError("documents can be isolated only where padding is on the right")
        starts = document_starts | (places == 0)
        self.documents = starts.cumsum(dim=1)
        self.positions = places - (places * starts).cummax(dim=1).values
        rows = torch.arange(len(mask), device=mask.device)[:, None] * (mask.size(1) + 1)
        numbers = self.pack(rows + self.documents)
        self.lengths = torch.unique_consecutive(numbers, return_counts=True)[1].tolist()

    @functools.cached_property
    def _tokens(self) -> Tensor:
        """Indices of the N tokens among the B * L."""
        return (~self.mask).flatten().nonzero().squeeze(1)

    def pack(self, x: Tensor) -> Tensor:
        """(B, L, ...) -> (N, ...), the tokens without the padding."""
        return x.flatten(0, 1).index_select(0, self._tokens)

    def packed_indices(self, tokens: Tensor) -> Tensor:
        """Where tokens are among the N: their indices among the B * L -> the same shape."""
        return ((~self.mask).flatten().cumsum(0) - 1).clamp(min=0).index_select(0, tokens)

    def unpack(self, x: Tensor) -> Tensor:
        """(N, ...) -> (B, L, ...), zeros at the padding."""
        out = x.new_zeros(self.mask.numel(), *x.shape[1:])
        return out.index_copy(0, self._tokens, x).unflatten(0, self.mask.shape)
