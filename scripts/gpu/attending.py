"""One request to attention, and its answer: the only file here that calls the implementations."""

from typing import List, NamedTuple, Optional

import torch
from torch import Tensor

from tupe_fairseq.attention import IMPLEMENTATIONS, Bias, Padding, split_qkv


class Answer(NamedTuple):
    out: Tensor
    grad_qkv: Tensor
    grad_bias: Tensor


class Request:
    """Random queries, keys, values and bias; ``layout`` says where the padding is.

    Args:
        batch, seq_len, heads, head_dim (int): sizes.
        dtype (torch.dtype): of q, k and v.
        layout (str): "full" (no padding), "padded" or "packed".
        device (str): cpu or cuda.
        in_factors (bool): whether the bias is, as that of TUPE-R with an untied [CLS].
    """

    def __init__(
        self, batch, seq_len, heads, head_dim, dtype, layout="full", device="cpu", in_factors=False
    ):
        generator = torch.Generator().manual_seed(seq_len)

        def draw(*shape):
            return torch.randn(*shape, generator=generator)

        self.scaling, self.seq_len = (2 * head_dim) ** -0.5, seq_len
        qkv = draw(batch, seq_len, 3, heads, head_dim)
        weights = draw(batch, seq_len, heads, head_dim)
        self.padding: Optional[Padding] = None
        if layout != "full":
            mask = torch.arange(seq_len) >= torch.tensor(_lengths(batch, seq_len))[:, None]
            weights[mask] = 0
            self.padding = Padding(mask.to(device), pack=layout == "packed")
            if self.padding.packed:
                qkv, weights = qkv[~mask], weights[~mask]
        # bf16 in any case, so that all dtypes begin with the same numbers
        self.qkv = qkv.bfloat16().to(device, dtype)
        self.weights = weights.bfloat16().to(device, dtype)
        if in_factors:
            width = head_dim + 2
            products = draw(heads, seq_len, width) * width**-0.5, draw(heads, seq_len, width)
            bias = Bias.of_factors(*products, draw(heads, 2 * seq_len - 1), spares_first=True)
        else:
            bias = Bias(draw(heads, seq_len, seq_len))
        self.bias, self._layout = bias.values.to(device), bias.layout

    def as_bias(self, values: Tensor) -> Bias:
        """What ``bias``, or another tensor like it, holds."""
        return Bias(values, self._layout)

    def compared(self, answer: Answer) -> List[Tensor]:
        """Its tensors, and of factors each on its own: the largest would hide the others."""
        grads = [answer.grad_bias]
        if self._layout is not None:
            grads = list(self.as_bias(answer.grad_bias).parts())
        return [answer.out, answer.grad_qkv, *grads]

    def refusal(self, name: str) -> Optional[str]:
        q, _, _ = self._parts(self.qkv)
        return IMPLEMENTATIONS[name].refusal(q, self.as_bias(self.bias), self.padding)

    def out(self, name: str, qkv: Tensor, bias: Tensor, dropout: float = 0.0) -> Tensor:
        """As the tokens travel; zeros at padding."""
        options = {"scaling": self.scaling, "dropout": dropout}
        attend = IMPLEMENTATIONS[name].attend
        out = attend(*self._parts(qkv), self.as_bias(bias), self.padding, **options)
        if self.padding is not None and not self.padding.packed:
            out = out.masked_fill(self.padding.mask[:, :, None, None], 0)
        return out

    def answer(self, name: str, dtype: Optional[torch.dtype] = None, dropout=0.0) -> Answer:
        """Outputs and gradients; in ``dtype``, if it is given, of everything."""
        qkv = self.qkv.detach().to(dtype or self.qkv.dtype, copy=True).requires_grad_()
        bias = self.bias.detach().to(dtype or self.bias.dtype, copy=True).requires_grad_()
        out = self.out(name, qkv, bias, dropout)
        out.backward(self.weights.to(out.dtype))
        return Answer(out.detach(), qkv.grad, bias.grad)

    def _parts(self, qkv: Tensor):
        return split_qkv(qkv)


def _lengths(batch: int, seq_len: int) -> List[int]:
    """Of every kind: none, one, all, and between."""
    return [(seq_len, 0, (seq_len + 1) // 2, 1)[number % 4] for number in range(batch)]


def distance(actual: Tensor, expected: Tensor) -> float:
    """Relative, of the norm; NaN is not below any bound."""
    expected = expected.double()
    norm = expected.norm().clamp(min=torch.finfo(torch.float64).tiny)
    return ((actual.double() - expected).norm() / norm).item()
