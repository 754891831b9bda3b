"""TUPE's encoder: records its options in the state dict, and takes the fastest attention."""

import torch
from torch import Tensor

from tupe_fairseq.attention import (
    Attention,
    Scores,
    Sequences,
    check,
    choose,
    is_fast_in_triton,
    scores_dtype,
)
from tupe_fairseq.modules.encoder_stack import EncoderStack
from tupe_fairseq.modules.record import RecordsOptions
from tupe_fairseq.options import TupeConfig
from tupe_fairseq.position import get_position_encoding


class TupeEncoder(RecordsOptions, EncoderStack):
    """An :class:`EncoderStack` whose state dict records the options (``position_version``).

    It does not load into an encoder with other options.
    """

    def __init__(self, config: TupeConfig):
        super().__init__(config, get_position_encoding(config.position_encoding))
        check(config.attn_impl, self._scores(torch.float32))
        self.register_record()

    @torch.no_grad()
    def attention_weights(
        self, embeddings: Tensor, key_padding_mask: Tensor | None = None
    ) -> list[Tensor]:
        """The attention probabilities of each layer: (B, H, L, L), 0 at padded keys."""
        if self.training:
            raise ValueError("attention_weights are computed without dropout; call eval() first")
        weights: list[Tensor] = []
        self(embeddings, key_padding_mask, weights=weights)
        return weights

    def attention_name(self, seq_len: int) -> str:
        """The attention implementation for sequences of this length, in the current mode."""
        weight = self.layernorm_embedding.weight
        chosen = self.attention_class(Sequences((1, seq_len), weight.device), weight)
        return chosen.__module__.rpartition(".")[2]

    def attention_class(self, sequences: Sequences, x: Tensor) -> type[Attention]:
        scores = self._scores(scores_dtype(x))
        parameters = () if self.position is None else self.position.parameters()
        has_gradient = scores.has_content_bias or any(p.requires_grad for p in parameters)
        has_dropout = self.training and self.config.attention_dropout > 0
        is_trained = has_dropout or (torch.is_grad_enabled() and has_gradient)
        return choose(self.config.attn_impl, sequences, scores, is_trained)

    def least_padding(self, x: Tensor) -> float:
        name = self.config.attn_impl
        is_fast = is_fast_in_triton(x.device, self._scores(scores_dtype(x)))
        takes_packed = name == "triton" or (name == "auto" and is_fast)
        return 0.0 if takes_packed else super().least_padding(x)

    def _scores(self, dtype: torch.dtype) -> Scores:
        config, encoding = self.config, self.encoding
        head_dim = encoding.widening * config.embed_dim // config.num_heads
        return Scores(dtype, config.num_heads, head_dim, encoding.uses("content_bias"))
