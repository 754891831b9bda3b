"""TUPE's encoder: records its options in the state dict, and takes the fastest attention."""

import functools
import importlib.util
from typing import NamedTuple

import torch
from torch import Tensor

from tupe_fairseq.attention.base import Attention, EagerAttention, SdpaAttention, scores_dtype
from tupe_fairseq.attention.chunked import ChunkedAttention
from tupe_fairseq.attention.sequences import Batch, Sequences, is_traced, isolate
from tupe_fairseq.modules.record import RecordsOptions
from tupe_fairseq.modules.transformer import EncoderStack
from tupe_fairseq.options import TupeConfig
from tupe_fairseq.position import get_position_encoding

# with fewer scores per sequence, over all heads, a loop over sequences costs more than it saves
FEW_SCORES = 2**14
WIDEST_HEAD = 128  # the largest head_dim of triton


class Scores(NamedTuple):
    """What an implementation must be able to compute."""

    dtype: torch.dtype
    num_heads: int
    head_dim: int
    has_content_bias: bool


class TupeEncoder(RecordsOptions, EncoderStack):
    """An :class:`EncoderStack` whose state dict records the options (``position_version``).

    It does not load into an encoder with other options.
    """

    def __init__(self, config: TupeConfig):
        super().__init__(config, get_position_encoding(config.position_encoding))
        name = config.attn_impl
        refuse(name, reason_against(name, self._scores(torch.float32)))
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
        least = self.least_padding(embeddings) if weights is None else 2.0
        sequences = Sequences(
            (embeddings.size(0), embeddings.size(1)),
            embeddings.device,
            key_padding_mask,
            lengths=lengths,
            least_padding=least if document_starts is None else 0.0,
        )
        if document_starts is not None:
            isolate(sequences, document_starts)
        if output_tokens is not None:
            output_tokens = packed_indices(output_tokens, sequences.whole)
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
        has_lengths = lengths is not None or masks["document_starts"] is not None
        if has_lengths and is_traced(embeddings.device):
            raise ValueError(
                "a compiled or exported model would hard-code this batch's documents or lengths"
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
        return chosen.__name__.removesuffix("Attention").lower()

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


def packed_indices(indices: Tensor, batch: Batch) -> Tensor:
    """Indices among the B * L -> among the packed tokens; those of padding become some token's."""
    if batch.places is None:
        return indices
    packed = batch.places.new_zeros(batch.shape[0] * batch.shape[1])
    numbers = torch.arange(len(batch.places), device=packed.device)
    return packed.index_copy_(0, batch.places, numbers).index_select(0, indices)


# ---- The implementation of attention ------------------------------------------------------------


def reason_against(name: str, scores: Scores) -> str | None:
    """Why this ``--attn-impl`` can never be used for such a model, or None."""
    if name in ("chunked", "triton") and scores.has_content_bias:
        return "it needs one bias for the whole batch, but this position encoding reads the words"
    if name == "triton" and scores.head_dim > WIDEST_HEAD:
        return f"it supports a head_dim up to {WIDEST_HEAD}, not {scores.head_dim}"
    if name == "triton" and importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    return None


def refuse(name: str, reason: str | None) -> None:
    if reason is not None:
        raise ValueError(f"attn_impl {name} cannot be used here: {reason}; use auto")


@functools.cache
def is_fast_in_triton(device: torch.device, scores: Scores) -> bool:
    """Whether ``auto`` takes triton: only where it was measured, on an H100."""
    return (
        device.type == "cuda"
        and scores.dtype in (torch.float16, torch.bfloat16)
        and torch.cuda.get_device_capability(device) == (9, 0)
        and reason_against("triton", scores) is None
    )


def choose(name: str, sequences: Sequences, scores: Scores, is_trained: bool) -> type[Attention]:
    """The implementation for a forward pass; ``auto`` takes the fastest one that was measured.

    ``is_trained``: dropout is on, or the bias gets a gradient.
    """
    device, is_packed = sequences.device, sequences.lengths is not None
    if name == "auto" and is_packed and is_fast_in_triton(device, scores):
        name = "triton"
    elif name == "auto" and (device.type != "cpu" or is_traced(device) or not is_trained):
        name = "sdpa"  # on the CPU it has neither dropout nor a gradient for the mask
    elif name == "auto":
        is_small = scores.num_heads * sequences.longest**2 < FEW_SCORES
        is_eager = scores.has_content_bias or is_small or not is_packed
        name = "eager" if is_eager else "chunked"
    if name in ("eager", "sdpa"):
        return EagerAttention if name == "eager" else SdpaAttention
    reason = None
    if is_traced(device):
        reason = "a compiled or exported model would hard-code the lengths of this batch"
    elif not is_packed:
        reason = "it needs all padding at the end of the sequences"
    elif name == "chunked" and device.type != "cpu":
        reason = f"it runs on the CPU only, but the tensors are on {device.type}"
    refuse(name, reason)
    if name == "chunked":
        return ChunkedAttention
    from tupe_fairseq.attention import triton  # takes a second

    refuse(name, triton.unsupported_reason(device, scores.dtype))
    return triton.TritonAttention
