"""The position bias that all layers share: computed once, and kept in evaluation."""

from collections import OrderedDict
from typing import Hashable, List, Optional, Tuple

import torch
from torch import Tensor, nn

from tupe_fairseq.attention import is_recorded, shifted

# Validation and inference see only a few lengths at a time.
SIZE = 8

#: the bias, and its copy for kernels that compute in a shorter dtype; None for nothing
Biases = Tuple[Optional[Tensor], Optional[Tensor]]


class SharedBias(nn.Module):
    """Gives every forward pass the bias of its length, for all layers and the whole batch.

    Training computes it again each time.  Evaluation keeps the biases of the last few lengths for
    as long as the parameters stay the same.  The parameters themselves are compared, each time: no
    counter of theirs records every change (``parameter.data.copy_()`` leaves it alone, and
    fairseq's optimizers and moving averages write that way), and comparing costs little next to a
    forward pass.

    What cancels in the softmax (``softmax_invariant_rows``: theta_1 and its bucket) gets no
    gradient from here, where it could only be rounding noise.

    It has no state of its own: the position encoding is the encoder's, under the name that state
    dicts know.

    Args:
        position (PositionEncoding, optional): gives the bias of a length; None for no bias.
    Shape:
        seq_len L, x what the layers get -> bias and its copy for kernels in the dtype of a
        projection of x, (H, L, L) each, rows are queries; None if there is no bias, or no
        copy is needed.
    """

    def __init__(self, position: Optional[nn.Module]):
        super().__init__()
        # in a list: as a submodule it would be in the state dict twice
        self._position = [position]
        self._kept: OrderedDict[Hashable, Biases] = OrderedDict()
        self._kept_parameters: List[Tensor] = []

    def forward(self, seq_len: int, x: Tensor) -> Biases:
        (position,) = self._position
        if position is None:
            return None, None
        # with or without autocast
        dtype = torch.mm(x.new_empty(0, 1), x.new_empty(1, 0)).dtype
        is_trained = torch.is_grad_enabled() and any(p.requires_grad for p in position.parameters())
        if self.training or is_trained or is_recorded():
            bias, kernel_bias = _compute(position, seq_len, dtype, x.device)
        else:
            # tensors made in inference mode cannot be used outside it
            key = seq_len, dtype, x.device, torch.is_inference_mode_enabled()
            bias, kernel_bias = self._keep(position, key)
        if bias is not None and bias.requires_grad:
            rows = torch.tensor(position.softmax_invariant_rows, device=bias.device)
            bias.register_hook(lambda grad: grad.index_fill(1, rows.long(), 0))
        return bias, kernel_bias

    def _keep(
        self, position: nn.Module, key: Tuple[int, torch.dtype, torch.device, bool]
    ) -> Biases:
        """The biases for ``key``, the kept ones if still valid."""
        if not self._is_valid(position):
            self._forget()
            self._kept_parameters = [p.detach().clone() for p in position.parameters()]
        if key not in self._kept:
            self._kept[key] = _compute(position, *key[:3])
            if len(self._kept) > SIZE:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _is_valid(self, position: nn.Module) -> bool:
        now = list(position.parameters())
        return len(now) == len(self._kept_parameters) and all(
            a.dtype == b.dtype and a.device == b.device and torch.equal(a, b)
            for a, b in zip(now, self._kept_parameters)
        )

    def _forget(self) -> None:
        self._kept.clear()
        self._kept_parameters = []

    def train(self, mode: bool = True):
        if mode:
            self._forget()
        return super().train(mode)

    def _apply(self, fn, *args, **kwargs):
        """As ``nn.Module``'s: called for every move to another device or dtype."""
        self._forget()
        return super()._apply(fn, *args, **kwargs)


def _compute(position: nn.Module, seq_len: int, dtype: torch.dtype, device: torch.device) -> Biases:
    bias = position(seq_len)
    if bias is None:
        return None, None
    bias = bias.to(device)  # a position encoding without parameters need not know it
    if torch.finfo(dtype).bits >= torch.finfo(bias.dtype).bits:
        return bias, None
    return bias, shifted(bias.detach(), dtype)
