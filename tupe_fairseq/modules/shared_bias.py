"""The position bias that all layers share: computed once, and kept in evaluation."""

from typing import Any, Dict, Hashable, List, NamedTuple, Optional, Tuple, cast

import torch
from torch import Tensor, nn

from tupe_fairseq.attention import Bias, is_recorded

# Validation and inference see only a few lengths at a time.
SIZE = 8
# Whole biases of long sequences are large: beyond this only the latest is kept.
BYTES = 2**28


class Kept(NamedTuple):
    """Biases by what they are for, the least recently used first, and what they come from.

    Never changed, only replaced: several threads may compute with one model.  What one of them
    keeps may be lost to another, but nobody sees half a change.
    """

    sources: List[Tensor]
    biases: Dict[Hashable, Optional[Bias]]


NOTHING = Kept([], {})


class SharedBias(nn.Module):
    """Gives every forward pass the bias of its length, for all layers and the whole batch.

    Training computes it again each time.  Evaluation keeps the biases of the last few lengths for
    as long as parameters and buffers stay the same.  They themselves are compared, each time: no
    counter of theirs records every change (``parameter.data.copy_()`` leaves it alone, and
    fairseq's optimizers and moving averages write that way), and comparing costs little next to a
    forward pass.  Where parameters are out of sight, nothing is kept: a sharded model (torch's
    FSDP with its flat parameters) and the replicas of ``nn.DataParallel`` hide them.

    What cancels in the softmax (``softmax_invariant_rows``: theta_1 and its bucket) gets no
    gradient from here, where it could only be rounding noise.

    It has no state of its own, and a copy or a file of it holds nothing that was kept: the
    position encoding is the encoder's, under the name that state dicts know.

    Args:
        position (PositionEncoding, optional): gives the bias of a length; None for no bias.
    Shape:
        position as above, seq_len L, the device of the layers, and whether these can do with
        factors, which are taken where the position encoding has them -> a bias (H, L, L), rows are
        queries; None if there is none.
    """

    def __init__(self, position: Optional[nn.Module]):
        super().__init__()
        # the module itself is given to each call: as a submodule it would be in the state dict
        # twice, and a reference would lead replicas to the original
        self._num_parameters = 0 if position is None else len(list(position.parameters()))
        self._kept = NOTHING

    def forward(
        self,
        position: Optional[nn.Module],
        seq_len: int,
        device: torch.device,
        in_factors: bool = False,
    ) -> Optional[Bias]:
        if position is None:
            return None
        parameters = list(position.parameters())
        are_hidden = len(parameters) < self._num_parameters
        is_trained = torch.is_grad_enabled() and any(p.requires_grad for p in parameters)
        if self.training or is_trained or are_hidden or is_recorded():
            bias = _compute(position, seq_len, device, in_factors)
        else:
            bias = self._keep(position, seq_len, device, in_factors)
        if bias is not None and bias.values.requires_grad and position.softmax_invariant_rows:
            _leave_out(bias, cast(Tuple[int, ...], position.softmax_invariant_rows))
        return bias

    def _keep(
        self, position: nn.Module, seq_len: int, device: torch.device, in_factors: bool
    ) -> Optional[Bias]:
        """The bias as :func:`_compute` gives it, the kept one if still valid."""
        sources, biases = self._kept
        now = [*position.parameters(), *position.buffers()]
        if not _are_equal(now, sources):
            sources, biases = [source.detach().clone() for source in now], {}
        # tensors made in inference mode cannot be used outside it
        key = seq_len, device, in_factors, torch.is_inference_mode_enabled()
        if key in biases:
            found = biases[key]
        else:
            found = _compute(position, seq_len, device, in_factors)
        biases = {**{other: kept for other, kept in biases.items() if other != key}, key: found}
        while len(biases) > SIZE or (len(biases) > 1 and _bytes(biases) > BYTES):
            del biases[next(iter(biases))]
        self._kept = Kept(sources, biases)
        if found is not None and found.layout is not None:
            # what is made of the factors, should anybody ask for it, is for this pass alone
            return Bias(found.values, found.layout)
        return found

    def train(self, mode: bool = True):
        if mode:
            self._kept = NOTHING
        return super().train(mode)

    def _apply(self, fn, *args, **kwargs):
        """As ``nn.Module``'s: called for every move to another device or dtype."""
        self._kept = NOTHING
        return super()._apply(fn, *args, **kwargs)

    def __getstate__(self):
        """For copies and files."""
        return {**self.__dict__, "_kept": NOTHING}


def _are_equal(now: List[Tensor], before: List[Tensor]) -> bool:
    return len(now) == len(before) and all(
        a.dtype == b.dtype and a.device == b.device and torch.equal(a, b)
        for a, b in zip(now, before)
    )


def _bytes(biases: Dict[Hashable, Optional[Bias]]) -> int:
    return sum(bias.num_bytes for bias in biases.values() if bias is not None)


def _compute(
    position: nn.Module, seq_len: int, device: torch.device, in_factors: bool
) -> Optional[Bias]:
    # a position encoding without parameters need not know the device
    factors = cast(Any, position).bias_factors(seq_len) if in_factors else None
    if factors is not None:
        bias = Bias.of_factors(*factors)
        return Bias(bias.values.to(device), bias.layout)
    whole = position(seq_len)
    return None if whole is None else Bias(whole.to(device))


def _leave_out(bias: Bias, rows: Tuple[int, ...]) -> None:
    """No gradient for some rows; in factors, for the queries there."""

    def zero(grad: Tensor) -> Tensor:
        indices = torch.tensor(rows, device=grad.device).long()
        if bias.layout is None:
            return grad.index_fill(1, indices, 0)
        grad = grad.clone()
        queries = bias.parts(grad).queries
        if queries is not None:
            queries.index_fill_(1, indices, 0)
        return grad

    bias.values.register_hook(zero)
