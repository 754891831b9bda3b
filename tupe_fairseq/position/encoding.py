"""The one interface of all position encodings."""

from typing import Any, Dict, Mapping, Optional, Tuple

import torch
from torch import Tensor, nn

from tupe_fairseq.position.bias_factors import BiasFactors
from tupe_fairseq.position.positions import Positions, as_length, as_tensor, relative_positions


def at_least_1(name: str, value: int, flag: str) -> None:
    """Refuse a size of 0 or less.

    Raises:
        ValueError: if ``value`` is less than 1; the message names the flag.
    """
    if value < 1:
        raise ValueError(f"{name} ({value}) must be at least 1; change {flag}")


def head_dim_of(embed_dim: int, num_heads: int) -> int:
    """The width of a head.

    Raises:
        ValueError: if one is less than 1, or ``num_heads`` does not divide ``embed_dim``.
    """
    at_least_1("embed_dim", embed_dim, "--encoder-embed-dim")
    at_least_1("num_heads", num_heads, "--encoder-attention-heads")
    if embed_dim % num_heads:
        raise ValueError(
            f"embed_dim ({embed_dim}) is not divisible by num_heads ({num_heads}); "
            "change --encoder-embed-dim or --encoder-attention-heads"
        )
    return embed_dim // num_heads


class PositionEncoding(nn.Module):
    """How attention sees the positions of tokens.

    A scheme overrides what it needs of four hooks, and declares the scaling of the logits:

    (a) :meth:`embed`: vectors added to the input;
    (b) :meth:`transform`: a change of queries and keys, each by its own position;
    (c) :meth:`position_bias`: a term of the logits that depends on positions alone;
    (d) :meth:`content_bias`: a term of the logits that depends on queries or keys as well.

    input = input + embed(positions)
    logits = scaling * transform(q) transform(k)^T + position_bias + content_bias

    Everywhere an integer n as positions means 0 .. n - 1; relative position is key position
    minus query position; [CLS] is the token at position 0, and without one, nothing is untied.

    Args:
        embed_dim (int): model width, D.
        num_heads (int): number of heads, H; divides ``embed_dim``.
        max_positions (int): the longest sequence; a limit for the schemes with a table
            (``TABLE``), for the others at most a unit of length.
        causal (bool): no query sees a key at a later position; such logits are -inf.
        scaling (float, optional): factor on the content term of the logits; 1 / sqrt(K) if None.
    Raises:
        ValueError: if a size is less than 1, or ``num_heads`` does not divide ``embed_dim``.
    """

    #: the options that the scheme takes: names of fields of :class:`PositionOptions`
    OPTIONS: Tuple[str, ...] = ()
    #: the tensor with a row for each position; None if any integer is a position
    TABLE: Optional[str] = None
    #: whether ``max_positions`` is the unit of distances, so that another one changes all of them
    max_positions_is_unit = False
    #: whether each layer has a module (parameters) of its own
    per_layer = False
    #: whether (a) is overridden
    adds_to_input = False
    #: whether (b) or (d) is overridden
    reads_content = False
    #: whether [CLS] has scores of its own
    unties_cls = False
    #: rows (queries) of (c) that hold one value for all keys, which cancels in the softmax
    softmax_invariant_rows: Tuple[int, ...] = ()

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        max_positions: int,
        *,
        causal: bool = False,
        scaling: Optional[float] = None,
    ):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = head_dim_of(embed_dim, num_heads)
        at_least_1("max_positions", max_positions, "--max-positions")
        self.max_positions = max_positions
        self.causal = causal
        self.scaling = self.head_dim**-0.5 if scaling is None else scaling
        #: T5's bucketed bias, the part of (c) that depends on the distance alone
        self.relative: Optional[nn.Module] = None
        #: Moves with the module: device and dtype for a scheme without parameters.  No buffer: one
        #: that is not in the state dict would stay on the meta device if the module is built there.
        self.unit = torch.ones((), device="cpu")

    def _apply(self, fn, *args, **kwargs):
        """As ``nn.Module``'s: called for every move to another device or dtype."""
        moved = fn(self.unit)
        # from the meta device no values come back
        self.unit = torch.ones_like(moved, device="cpu") if moved.is_meta else moved
        return super()._apply(fn, *args, **kwargs)

    @classmethod
    def defaults(cls, given: Mapping[str, Any]) -> Dict[str, Any]:
        """Values of the options that are not given, if they depend on the scheme or on others.

        Args:
            given (mapping): the options, without those not given, or with None for them.
        """
        return {}

    def max_positions_in(self, state_dict: Mapping[str, Tensor], prefix: str) -> Optional[int]:
        """The ``max_positions`` of a saved module of this scheme; None if it has no table.

        Args:
            state_dict (mapping): tensors by name.
            prefix (str): the prefix of their names.
        """
        if self.TABLE is None or prefix + self.TABLE not in state_dict:
            return None
        # tupe's table has a row more than positions
        others = self.get_parameter(self.TABLE).size(0) - self.max_positions
        return state_dict[prefix + self.TABLE].size(0) - others

    def embed(self, positions: Positions) -> Optional[Tensor]:
        """(a) What is added to the input: n, (T) or (B, T) -> (..., T, D); None for nothing.

        Dtype and device: those of the parameters; without any, those of ``unit``.
        """
        return None

    def transform(self, x: Tensor, positions: Tensor) -> Tensor:
        """(b) Queries or keys, changed by their positions.

        Shape:
            x (..., K), integer positions that broadcast to x.shape[:-1] -> as x.
        """
        return x

    def position_bias(
        self, positions_q: Positions, positions_k: Optional[Positions] = None
    ) -> Optional[Tensor]:
        """(c) The term of positions alone; None for nothing.

        In evaluation an encoder keeps it, for as long as parameters and buffers stay the same: it
        must depend on nothing else.

        Args:
            positions_k: those of the queries if None.
        Shape:
            n or (Tq), n or (Tk) -> (H, Tq, Tk); with (B, T) positions (B, H, Tq, Tk).
        Dtype and device: those of the parameters, or without any of ``unit``, but at least
            float32.
        """
        return None

    def bias_factors(self, seq_len: int) -> Optional[BiasFactors]:
        """(c) of the positions 0 .. seq_len - 1 in factors; None for nothing, or if it has none.

        They multiply out to what :meth:`position_bias` gives for the same positions.
        """
        return None

    def content_bias(
        self, q: Tensor, k: Tensor, positions_q: Positions, positions_k: Positions
    ) -> Optional[Tensor]:
        """(d) The term that depends on queries or keys; None for nothing.

        Shape:
            q (B, H, Tq, K), k (B, H, Tk, K), as projected -> broadcastable to (B, H, Tq, Tk).
        """
        return None

    def for_layers(self, seq_len: int) -> Optional[Tensor]:
        """What (d) makes of the parameters alone; None for nothing.

        Layers that share a scheme get it as the last argument of its :meth:`content_bias`: then
        none of them computes it again, and no parameter is used inside of two layers, which
        data-parallel training with activation checkpointing does not allow.

        Shape:
            (..., seq_len, K), for positions 0 .. seq_len - 1: cut to fewer, it is of these.
        """
        return None

    def forward(
        self, positions_q: Positions, positions_k: Optional[Positions] = None
    ) -> Optional[Tensor]:
        """As :meth:`position_bias`."""
        return self.position_bias(positions_q, positions_k)

    def forward_input(self, input: Tensor, positions: Optional[Positions] = None) -> Tensor:
        """The input of the first layer, with positions added if the scheme adds them there.

        Args:
            positions: 0 .. T - 1 if None.
        Shape:
            input (B, T, D); positions (T) or (B, T) -> (B, T, D).
        Raises:
            ValueError: if the last dimension is not ``embed_dim``, or positions do not fit.
        """
        if input.dim() != 3 or input.size(-1) != self.embed_dim:
            raise ValueError(
                f"input is {tuple(input.shape)}; expected is (B, T, embed_dim {self.embed_dim})"
            )
        positions = self._of_length(positions, input, 1, "positions")
        added = self.embed(positions)
        return input if added is None else input + added.to(input)

    def forward_attn(
        self,
        q: Tensor,
        k: Tensor,
        positions_q: Optional[Positions] = None,
        positions_k: Optional[Positions] = None,
    ) -> Tensor:
        """The logits of attention, before padding mask and softmax.

        Args:
            q, k (Tensor): projected queries and keys, not scaled.
            positions_q, positions_k: 0 .. T - 1 if None.
        Shape:
            q (B, H, Tq, K), k (B, H, Tk, K); positions (T) or (B, T) -> (B, H, Tq, Tk).
        Dtype: that of q, or of the bias if that is wider.
        Raises:
            ValueError: if a shape does not fit, or a position is beyond a table.
        """
        for name, x in (("q", q), ("k", k)):
            if x.dim() != 4 or (x.size(1), x.size(3)) != (self.num_heads, self.head_dim):
                raise ValueError(
                    f"{name} is {tuple(x.shape)}; expected is (B, num_heads {self.num_heads}, T, "
                    f"head_dim {self.head_dim})"
                )
        positions_q = self._of_length(positions_q, q, 2, "positions_q")
        positions_k = self._of_length(positions_k, k, 2, "positions_k")
        transformed = (
            self.transform(x, self._per_head(p, x.device))
            for x, p in ((q, positions_q), (k, positions_k))
        )
        logits = self.scaling * torch.matmul(next(transformed), next(transformed).transpose(-2, -1))
        for bias in (
            self.position_bias(positions_q, positions_k),
            self.content_bias(q, k, positions_q, positions_k),
        ):
            if bias is not None:
                logits = logits + bias.to(logits.device)
        if self.causal:
            is_later = relative_positions(positions_q, positions_k, q.device) > 0
            if is_later.dim() == 3:
                is_later = is_later.unsqueeze(1)
            logits = logits.masked_fill(is_later, float("-inf"))
        return logits

    @staticmethod
    def _per_head(positions: Positions, device: torch.device) -> Tensor:
        """Positions that broadcast to (B, H, T)."""
        positions = as_tensor(positions, device)
        return positions if positions.dim() == 1 else positions.unsqueeze(1)

    @staticmethod
    def _of_length(positions: Optional[Positions], x: Tensor, dim: int, name: str) -> Positions:
        if positions is None:
            positions = x.size(dim)
            as_length(positions)
            return positions
        positions = as_tensor(positions, x.device)
        batches = (1, x.size(0)) if positions.dim() == 2 else (None,)
        batch = positions.size(0) if positions.dim() == 2 else None
        if positions.size(-1) != x.size(dim) or batch not in batches:
            raise ValueError(
                f"{name} have the shape {tuple(positions.shape)}; expected is ({x.size(dim)},) or "
                f"({x.size(0)}, {x.size(dim)})"
            )
        return positions
