"""The position bias that all layers share: computed once, and kept in evaluation."""

from typing import Dict, Hashable, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

from tupe_fairseq.attention import is_recorded, shifted

# Validation and inference see only a few lengths at a time.
SIZE = 8
# Biases of long sequences are large: beyond this only the latest is kept.
BYTES = 2**28

#: the bias, and its copy for kernels that compute in a shorter dtype; None for nothing
Biases = Tuple[Optional[Tensor], Optional[Tensor]]


class Kept(NamedTuple):
    """Biases by what they are for, the least recently used first, and what they come from.

    Never changed, only replaced: several threads may compute with one model.  What one of them
    keeps may be lost to another, but nobody sees half a change.
    """

    sources: List[Tensor]
    biases: Dict[Hashable, Biases]


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
        position as above, seq_len L, x what the layers get -> bias and its copy for kernels in the
        dtype of a projection of x, (H, L, L) each, rows are queries; None if there is no bias, or
        no copy is needed.
    """

    def __init__(self, position: Optional[nn.Module]):
        super().__init__()
        # the module itself is given to each call: as a submodule it would be in the state dict
        # twice, and a reference would lead replicas to the original
        self._num_parameters = 0 if position is None else len(list(position.parameters()))
        self._kept = NOTHING

    def forward(self, position: Optional[nn.Module], seq_len: int, x: Tensor) -> Biases:
        if position is None:
            return None, None
        # with or without autocast
        dtype = torch.mm(x.new_empty(0, 1), x.new_empty(1, 0)).dtype
        parameters = list(position.parameters())
        are_hidden = len(parameters) < self._num_parameters
        is_trained = torch.is_grad_enabled() and any(p.requires_grad for p in parameters)
        if self.training or is_trained or are_hidden or is_recorded():
            bias, kernel_bias = _compute(position, seq_len, dtype, x.device)
        else:
            bias, kernel_bias = self._keep(position, seq_len, dtype, x.device)
        if bias is not None and bias.requires_grad:
            rows = torch.tensor(position.softmax_invariant_rows, device=bias.device)
            bias.register_hook(lambda grad: grad.index_fill(1, rows.long(), 0))
        return bias, kernel_bias

    def _keep(
        self, position: nn.Module, seq_len: int, dtype: torch.dtype, device: torch.device
    ) -> Biases:
        """The biases as :func:`_compute` gives them, the kept ones if still valid."""
        sources, biases = self._kept
        now = [*position.parameters(), *position.buffers()]
        if not _are_equal(now, sources):
            sources, biases = [source.detach().clone() for source in now], {}
        # tensors made in inference mode cannot be used outside it
        key = seq_len, dtype, device, torch.is_inference_mode_enabled()
        found = biases.get(key) or _compute(position, seq_len, dtype, device)
        biases = {**{other: kept for other, kept in biases.items() if other != key}, key: found}
        while len(biases) > SIZE or (len(biases) > 1 and _bytes(biases) > BYTES):
            del biases[next(iter(biases))]
        self._kept = Kept(sources, biases)
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


def _bytes(biases: Dict[Hashable, Biases]) -> int:
    tensors = [bias for pair in biases.values() for bias in pair if bias is not None]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _compute(position: nn.Module, seq_len: int, dtype: torch.dtype, device: torch.device) -> Biases:
    bias = position(seq_len)
    if bias is None:
        return None, None
    bias = bias.to(device)  # a position encoding without parameters need not know it
    if torch.finfo(dtype).bits >= torch.finfo(bias.dtype).bits:
        return bias, None
    return bias, shifted(bias.detach(), dtype)
