"""Multi-head self-attention whose scores take a real-valued bias and an explicit scaling."""

import functools
import sys
from typing import Optional, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe_fairseq.attention import (
    Bias,
    Padding,
    attention_probabilities,
    check_name,
    choose,
    in_parts,
    split_qkv,
)
from tupe_fairseq.modules.input_checks import check_mask


def not_compiled(function):
    """As ``torch.compiler.disable``, which imports the compiler at once: that takes seconds.

    A compiled layer leaves attention out: its kernels are compiled already, and its choice among
    them is plain Python.
    """
    disable = getattr(getattr(torch, "compiler", None), "disable", None)

    @functools.wraps(function)
    def call(*args):
        if disable is None or "torch._dynamo" not in sys.modules:
            return function(*args)
        if not hasattr(function, "not_compiled"):
            function.not_compiled = disable(function)
        return function.not_compiled(*args)

    return call


class TupeMultiheadAttention(nn.Module):
    """Self-attention over words, plus a finished bias.

    head_h = dropout(softmax(scaling * (x W_Q^h)(x W_K^h)^T + attn_bias[h])) (x W_V^h)
    Source: Ke, He and Liu 2021, Eqs. (8) and (10), https://arxiv.org/abs/2006.15595, where
    scaling is 1 / sqrt(2 * head_dim).

    It knows no position: with a constant bias, permuting the tokens permutes the output.  A
    ``position`` module, where the scheme needs one, changes q and k and adds what depends on them.

    Args:
        embed_dim (int): model width, D.
        num_heads (int): number of heads, H; divides ``embed_dim``.
        scaling (float): factor on the content scores (not on ``attn_bias``).
        dropout (float): dropout probability of the attention probabilities.
        attn_impl (str): how it is computed, one of ``tupe_fairseq.attention.NAMES``; all give the
            same numbers within rounding.
        position (nn.Module, optional): this layer's own position encoding.
    Shape:
        x (B, L, D); attn_bias broadcastable to (B, H, L, L), rows are queries; key_padding_mask
        bool (B, L), True = padding, ignored -> (B, L, D).  In place of the mask a ``Padding`` made
        of it once for all layers; if that is packed, x is (N, D) -> (N, D).  In place of the
        tensor attn_bias a ``Bias`` made once for all layers; bias_values: its ``values``, or a
        copy of them.  position: a position encoding that layers share, of which
        :meth:`PositionEncoding.transform` and ``content_bias`` are asked; for_layers: its tensor of
        that name.
    Dtype and device: those of the parameters.  At padding the output is finite and undefined.
    Raises:
        ValueError: if ``num_heads`` does not divide ``embed_dim``, or ``attn_impl`` is unknown.
        TypeError: if ``key_padding_mask`` is not bool.
        ValueError: if it is not (B, L) of x.
        RuntimeError: if the named implementation does not support the request; the message says
            why.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        scaling: float,
        dropout: float = 0.0,
        attn_impl: str = "auto",
        position: Optional[nn.Module] = None,
    ):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim ({embed_dim}) is not divisible by num_heads ({num_heads}); "
                "change --encoder-embed-dim or --encoder-attention-heads"
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scaling = scaling
        self.dropout = dropout
        self.attn_impl = check_name(attn_impl)
        # W_Q, W_K, W_V stacked, as torch's own attention and the authors' checkpoints have them
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.position = position
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """BERT's initialisation: N(0, 0.02), biases zero."""
        nn.init.normal_(self.in_proj_weight, std=0.02)
        nn.init.normal_(self.out_proj.weight, std=0.02)
        nn.init.zeros_(self.in_proj_bias)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        x: Tensor,
        attn_bias: Union[None, Tensor, Bias] = None,
        key_padding_mask: Union[None, Tensor, Padding] = None,
        position: Optional[nn.Module] = None,
        for_layers: Optional[Tensor] = None,
        bias_values: Optional[Tensor] = None,
    ) -> Tensor:
        """What each word gathers from all.

        Args: see the class.
        Shape:
            x (B, L, D), key_padding_mask bool (B, L) -> (B, L, D); with packed ``Padding``
            x (N, D) -> (N, D).
        Raises:
            ValueError, TypeError, RuntimeError: as the class says.
        """
        padding = _known(key_padding_mask, x)
        qkv = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        return self.out_proj(
            self._attend(qkv, attn_bias, padding, position, for_layers, bias_values)
        )

    def attention_weights(
        self,
        x: Tensor,
        attn_bias: Union[None, Tensor, Bias] = None,
        key_padding_mask: Union[None, Tensor, Padding] = None,
        position: Optional[nn.Module] = None,
    ) -> Tensor:
        """The probabilities of attention, without dropout; for inspection.

        Shape:
            as :meth:`forward`, x not packed -> (B, H, L, L), at least float32; 0 at padded keys.
        """
        padding = _known(key_padding_mask, x)
        qkv = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, _ = qkv.unflatten(-1, (3, self.num_heads, self.head_dim)).unbind(-3)
        q, k, bias = self._with_position(q, k, _as_bias(attn_bias), padding, position)
        return attention_probabilities(q, k, bias, padding, scaling=self.scaling)

    def _with_position(self, q, k, attn_bias, padding, position, for_layers=None):
        """q, k and the bias after the position encoding; q and k (B, L, H, K) or (N, H, K)."""
        position = self._reading(position)
        if position is None:
            return q, k, attn_bias
        is_packed = padding is not None and padding.packed
        seq_len = q.size(1) if padding is None else padding.seq_len
        # unpacked, because scores between two sequences mean nothing: B x H x L x K
        of_head = ((padding.unpack(x) if is_packed else x).transpose(1, 2) for x in (q, k))
        computed = () if for_layers is None else (for_layers,)
        content_bias = position.content_bias(*of_head, seq_len, seq_len, *computed)
        if content_bias is not None:
            whole = content_bias if attn_bias is None else attn_bias.whole() + content_bias
            attn_bias = Bias(whole)
        positions = padding.positions if is_packed else torch.arange(seq_len, device=q.device)
        q, k = (position.transform(x, positions.unsqueeze(-1)) for x in (q, k))
        return q, k, attn_bias

    @not_compiled
    def _attend(self, qkv, attn_bias, padding, position, for_layers, bias_values):
        # (B x L or N) x 3D -> (B x L or N) x H x K, three times
        q, k, v = split_qkv(qkv.unflatten(-1, (3, self.num_heads, self.head_dim)), self.attn_impl)
        bias = _as_bias(attn_bias, bias_values)

        def attend(q, k, v, padding, bias=bias, for_layers=for_layers):
            q, k, bias = self._with_position(q, k, bias, padding, position, for_layers)
            dropout = self.dropout if self.training else 0.0
            chosen = choose(self.attn_impl, q, bias, padding, dropout)
            return chosen(q, k, v, bias, padding, scaling=self.scaling, dropout=dropout)

        def attend_part(q, k, v, part):
            length = part.seq_len
            computed = None if for_layers is None else for_layers[..., :length, :]
            own = None if bias is None else bias.of_first(length)
            return attend(q, k, v, part, own, computed)

        # what depends on the words is made for padded batches
        if padding is None or not padding.packed or self._reading(position) is None:
            return attend(q, k, v, padding).flatten(-2)
        return in_parts(attend_part, q, k, v, padding).flatten(-2)

    def _reading(self, position: Optional[nn.Module]) -> Optional[nn.Module]:
        """The position encoding, its own or the shared one, if it reads queries or keys."""
        position = position if self.position is None else self.position
        return position if position is not None and position.reads_content else None


def _as_bias(
    attn_bias: Union[None, Tensor, Bias], values: Optional[Tensor] = None
) -> Optional[Bias]:
    bias = Bias(attn_bias) if isinstance(attn_bias, Tensor) else attn_bias
    return None if bias is None else bias.holding(values)


def _known(key_padding_mask: Union[None, Tensor, Padding], x: Tensor) -> Optional[Padding]:
    """The padding, or None if there is none."""
    padding = key_padding_mask
    if isinstance(padding, Tensor):
        check_mask(padding, x)
        padding = Padding(padding)
    return None if padding is None or not padding.any else padding
