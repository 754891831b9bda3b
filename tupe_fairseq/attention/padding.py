"""Which tokens of a batch are padding, found out once per forward pass."""

import functools
from typing import Any, Callable, Dict, Hashable, List, Optional, Tuple, TypeVar

import torch
from torch import Tensor

from tupe_fairseq.attention.recorded import is_recorded

Made = TypeVar("Made")


class Padding:
    """The padding of a batch, as the attention implementations need it.

    Everything the host must know (are there padded tokens, are they all at the end, how long are
    the sequences) comes over in one transfer, so that no layer waits for the device.  Where the
    computation is recorded, to be run on other masks, none of it is known.

    Args:
        mask (Tensor): True = padding.
        pack (bool): let the tokens travel through the layers without the padding, one sequence
            after the other: (N, ...) for the N real tokens instead of (B, L, ...).  Done only
            if there is padding, and all of it at the end.
    Shape:
        mask bool (B, L).
    Raises:
        TypeError: if ``mask`` is not bool.
    """

    def __init__(self, mask: Tensor, pack: bool = False):
        if mask.dtype != torch.bool:
            raise TypeError(f"key_padding_mask is {mask.dtype}, not bool; True marks padding")
        self.mask = mask
        self.batch, self.seq_len = mask.shape
        self.lengths: Optional[List[int]] = None
        self.any, self.packed = True, False
        self._made: Dict[Hashable, Tuple[Tensor, Any, Any]] = {}
        if is_recorded():
            return
        counts = (~mask).sum(dim=1)
        is_suffix = torch.arange(self.seq_len, device=mask.device) >= counts[:, None]
        *lengths, at_end = torch.cat([counts, (mask == is_suffix).all().view(1)]).tolist()
        #: number of real tokens of each sequence; None if padding is elsewhere than at the end
        self.lengths = lengths if at_end else None
        self.any = sum(lengths) < mask.numel()
        self.packed = pack and self.any and self.lengths is not None

    @property
    def begins_with_padding(self) -> bool:
        """Whether a padded token comes before a real one, at the beginning of its sequence."""
        if self.lengths is not None or is_recorded():
            return False
        return bool((self.mask[:, 0] & ~self.mask.all(dim=1)).any())

    @property
    def spans(self) -> List[Tuple[int, int]]:
        """Where each sequence begins among the tokens that travel, and its length."""
        assert self.lengths is not None, "ask shared_bias_refusal first"
        if not self.packed:
            return [(b * self.seq_len, length) for b, length in enumerate(self.lengths)]
        starts = [0]
        for length in self.lengths:
            starts.append(starts[-1] + length)
        return list(zip(starts, self.lengths))

    @functools.cached_property
    def device_spans(self) -> Tensor:
        """``spans`` as an int32 tensor (B, 2) on the device of the mask."""
        return torch.tensor(self.spans, dtype=torch.int32).to(self.mask.device, non_blocking=True)

    @functools.cached_property
    def real(self) -> Tensor:
        """Indices of the real tokens among the B * L, int64 (N)."""
        return (~self.mask).flatten().nonzero().squeeze(1)

    @property
    def positions(self) -> Tensor:
        """Of each token that travels packed, its place in its sequence, int64 (N)."""
        return self.real % self.seq_len

    @property
    def parts(self) -> List[Tuple[Optional[Tensor], "Padding"]]:
        """The packed sequences as padded batches of their own, for what takes no packed tokens.

        Of each batch the indices of its tokens among those that travel, int64, and its padding,
        packed; here all sequences in one, without indices.
        """
        return [(None, self)]

    def once(self, source: Tensor, key: Hashable, make: Callable[[], Made]) -> Made:
        """What ``make`` gives: made for the first layer that asks, kept for the others.

        Of one source at a time: a layer that is computed again for its gradient, from a copy of
        the source, gets nothing whose graph is that of the first pass.

        Args:
            source (Tensor): what it is made of, by identity.
            key (hashable): what else decides it.
            make (callable): makes it.
        """
        # without a gradient it has no graph; made in inference mode, it is of no use outside
        mode = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        # a parameter may itself be the bias, and be written to
        has_version = not (is_recorded() or source.is_inference())
        of = mode, source._version if has_version else None
        found = self._made.pop(key, None)
        if found is None or found[0] is not source or found[1] != of:
            del found  # before the next takes as much
            found = source, of, make()
        self._made[key] = found
        return found[2]

    def pack(self, x: Tensor) -> Tensor:
        """(B, L, ...) -> (N, ...), the real tokens."""
        return x.flatten(0, 1).index_select(0, self.real)

    def unpack(self, x: Tensor) -> Tensor:
        """(N, ...) -> (B, L, ...), zeros at the padding."""
        out = x.new_zeros((self.batch * self.seq_len, *x.shape[1:]))
        return out.index_copy(0, self.real, x).unflatten(0, (self.batch, self.seq_len))


def batch_spans(q: Tensor, padding: Optional[Padding]) -> List[Tuple[int, int]]:
    """First token and length of each sequence, among the tokens of the batch in a row.

    Args:
        q (Tensor): (B, L, H, K), or (N, H, K) with packed ``padding``.
        padding (Padding, optional): None if there is none.
    """
    if padding is not None:
        return padding.spans
    batch, seq_len = q.shape[:2]
    return [(b * seq_len, seq_len) for b in range(batch)]
