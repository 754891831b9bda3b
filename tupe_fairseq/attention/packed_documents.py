"""Documents that follow each other in the rows of a batch, each a sequence of its own."""

import functools
from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from tupe_fairseq.attention.padding import Padding
from tupe_fairseq.attention.recorded import is_recorded


class Documents(Padding):
    """The documents of a batch as packed sequences: none sees another, nor its positions.

    Nothing of size L x L says so: attention is asked for one sequence after the other, as where
    padding is left out.  Here ``batch`` is the number of documents and ``seq_len`` the length of
    the longest, while :meth:`pack` and :meth:`unpack` are between the batch as given and its
    tokens.

    Args:
        starts (Tensor): True = the first token of a document; that of a row is one in any case.
        mask (Tensor): True = padding, at the end of the rows.
    Shape:
        starts, mask bool (B, L).
    Raises:
        TypeError: if one of them is not bool.
        ValueError: if their shapes differ, or padding is elsewhere than at the end; where the
            computation is recorded, to be run on other documents.
    """

    def __init__(self, starts: Tensor, mask: Tensor):
        if is_recorded():
            raise ValueError(
                "documents cannot be isolated where torch.jit.trace or export records the model, "
                "which would fix their places; record one without document_starts"
            )
        if starts.dtype != torch.bool:
            raise TypeError(f"document_starts is {starts.dtype}, not bool; True = a first token")
        if starts.shape != mask.shape:
            raise ValueError(
                f"document_starts is {tuple(starts.shape)}, and the batch is {tuple(mask.shape)}; "
                "expected is (B, L) of both"
            )
        rows = Padding(mask, pack=True)
        if rows.lengths is None:
            raise ValueError(
                "documents can be isolated only where all padding is at the end of its row; pad on "
                "the right"
            )
        self._rows = rows
        is_first = torch.arange(rows.seq_len, device=mask.device) == 0
        firsts = rows.pack(starts | is_first).nonzero().squeeze(1)
        bounds = [*firsts.tolist(), sum(rows.lengths)]
        lengths = [end - start for start, end in zip(bounds, bounds[1:])]
        super().__init__(_mask(lengths, mask.device), pack=True)
        # also where all are of one length
        self.any = self.packed = True

    def pack(self, x: Tensor) -> Tensor:
        """(B, L, ...) of the batch as given -> (N, ...), the real tokens."""
        return self._rows.pack(x)

    def unpack(self, x: Tensor) -> Tensor:
        """(N, ...) -> (B, L, ...) of the batch as given, zeros at the padding."""
        return self._rows.unpack(x)

    @functools.cached_property
    def parts(self) -> List[Tuple[Optional[Tensor], Padding]]:
        """Documents of similar length together, so that less than half of a batch is padding."""
        spans = sorted(self.spans, key=lambda span: -span[1])
        groups: List[List[Tuple[int, int]]] = []
        for span in spans:
            if not groups or 2 * span[1] < groups[-1][0][1]:
                groups.append([])
            groups[-1].append(span)
        return [(self._tokens(group), self._padding(group)) for group in groups]

    def _tokens(self, spans: Sequence[Tuple[int, int]]) -> Tensor:
        tokens = torch.cat([torch.arange(start, start + length) for start, length in spans])
        return tokens.to(self.mask.device)

    def _padding(self, spans: Sequence[Tuple[int, int]]) -> Padding:
        part = Padding(_mask([length for _, length in spans], self.mask.device), pack=True)
        part.any = part.packed = True
        return part


def _mask(lengths: List[int], device: torch.device) -> Tensor:
    """True = padding, of sequences in a batch as long as the longest."""
    places = torch.arange(max(lengths, default=0), device=device)
    return places >= torch.tensor(lengths, dtype=torch.long, device=device)[:, None]
