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

    def forward(
        self,
        embeddings: Tensor,
        key_padding_mask: Tensor | None = None,
        return_all_hiddens: bool = False,
        document_starts: Tensor | None = None,
        output_tokens: Tensor | None = None,
        lengths: list[int] | None = None,
        weights: list[Tensor] | None = None,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """The hidden states of a batch. [CLS] is at index 0; pad on the right.

        Args:
            return_all_hiddens (bool): also return the embedding output and the output of each
                layer; with pre-LN these are before the final LayerNorm.
            document_starts: True = the first token of a document, which is its [CLS]; each document
                is encoded as if it were alone.
            output_tokens: indices (n,), among the B * L, of the tokens whose hidden states are
                needed -> (n, D); the last layer skips the others. Not with return_all_hiddens.
            lengths: the number of tokens of each row, instead of key_padding_mask; saves waiting
                for a GPU.
            weights: a list that gets the attention probabilities of each layer, (B, H, L, L), 0 at
                padded keys; not with document_starts.
        Shape: embeddings (B, L, D); key_padding_mask bool (B, L), True = padding;
        document_starts bool (B, L) -> (B, L, D), or a pair of it and a list of such tensors. Values
        at padding are finite but undefined.
        """
        if return_all_hiddens and output_tokens is not None:
            raise ValueError("return_all_hiddens returns all tokens; leave output_tokens out")
        if output_tokens is not None and output_tokens.dtype != torch.long:
            raise ValueError("output_tokens must be indices: use mask.flatten().nonzero()[:, 0]")
        if weights is not None and document_starts is not None:
            raise ValueError("weights are those of whole rows; leave document_starts out")
        masks = {"key_padding_mask": key_padding_mask, "document_starts": document_starts}
        self._check(embeddings, masks, lengths)
        sequences = Sequences(
            (embeddings.size(0), embeddings.size(1)),
            embeddings.device,
            *masks.values(),
            row_lengths=lengths,
            least_padding=self.least_padding(embeddings) if weights is None else 2.0,
        )
        if output_tokens is not None:
            output_tokens = sequences.whole.pack_indices(output_tokens)
        return self.encode(embeddings, sequences, return_all_hiddens, output_tokens, weights)

    def _check(self, embeddings, masks, lengths) -> None:
        if embeddings.dim() != 3 or embeddings.size(1) == 0:
            shape = tuple(embeddings.shape)
            raise ValueError(f"embeddings are {shape}; expected (B, L, D), where L is at least 1")
        batch, seq_len, _ = embeddings.shape
        for name, x in masks.items():
            if x is not None and (x.dtype != torch.bool or x.shape != (batch, seq_len)):
                raise ValueError(
                    f"{name} is {x.dtype} {tuple(x.shape)}, and the embeddings are "
                    f"{tuple(embeddings.shape)}; expected bool (B, L) and (B, L, D)"
                )
        if lengths is not None:
            if masks["key_padding_mask"] is not None:
                raise ValueError("lengths replace key_padding_mask; pass only one of them")
            if len(lengths) != batch or not {*lengths} <= {*range(seq_len + 1)}:
                raise ValueError(f"lengths are {lengths}; expected {batch} values, 0 to {seq_len}")

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
