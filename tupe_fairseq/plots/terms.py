"""The part of the attention logits that depends on positions alone, taken apart."""

from typing import Dict, NamedTuple, Optional

import torch
from torch import Tensor

from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.position import PositionEncoding


class PositionTerms(NamedTuple):
    """What positions alone add to the logits, as the softmax gets it; rows are queries.

    Args:
        absolute (Tensor, optional): what depends on both positions: TUPE's A.
        relative (Tensor, optional): what depends on their distance: T5's R, ALiBi, ...
        sum (Tensor): both.
    Shape:
        (H, T, T) each; None for a term that the scheme does not have.
    """

    absolute: Optional[Tensor]
    relative: Optional[Tensor]
    sum: Tensor


@torch.no_grad()
def position_terms(
    encoder: TupeEncoder, seq_len: int, layer: Optional[int] = None
) -> PositionTerms:
    """The logits that the position encoding gives to a sequence without content (q = k = 0).

    Args:
        encoder (TupeEncoder): the model.
        seq_len (int): number of positions, T.
        layer (int, optional): which layer's, for the schemes where each has its own.
    Raises:
        ValueError: if ``layer`` is missing, out of range, or given for a scheme that layers share.
        ValueError: if the scheme has no such logits; the message says what to look at instead.
        ValueError: if ``seq_len`` is below 1, or beyond the scheme's table.
    """
    scheme = encoder.config.position_encoding
    if seq_len < 1:
        raise ValueError(f"seq_len ({seq_len}) must be at least 1")
    module = _module(encoder, scheme, layer)
    total = module.position_bias(seq_len)
    if module.reads_content:
        parameter = next(encoder.parameters())
        nothing = parameter.new_zeros(1, module.num_heads, seq_len, module.head_dim)
        content = module.content_bias(nothing, nothing, seq_len, seq_len)
        if content is not None and content.any():
            content = content[0].expand(module.num_heads, seq_len, seq_len)
            total = content if total is None else total + content
    if total is None:
        raise ValueError(_why_nothing(module, scheme))
    relative = None if module.relative is None else module.relative(seq_len)
    own = total if relative is None else total - relative
    if not module.has_table:  # then no term is of absolute positions
        return PositionTerms(None, total, total)
    if module.adds_to_input:  # the table's rows are in the input, not in the logits
        return PositionTerms(None, relative, total)
    return PositionTerms(own, relative, total)


def terms_by_layer(encoder: TupeEncoder, seq_len: int) -> Dict[Optional[int], PositionTerms]:
    """:func:`position_terms` of each layer; under None for a scheme that all share."""
    if encoder.position_bias is not None:
        return {None: position_terms(encoder, seq_len)}
    layers = range(encoder.config.num_layers)
    return {layer: position_terms(encoder, seq_len, layer) for layer in layers}


def _module(encoder: TupeEncoder, scheme: str, layer: Optional[int]) -> PositionEncoding:
    shared = encoder.position_bias
    if shared is not None:
        if layer is not None:
            raise ValueError(
                f"layer ({layer}) is given, but all layers share the position encoding "
                f"{scheme!r}; leave it out"
            )
        return shared
    layers = list(encoder.layers)
    if layer is None or not 0 <= layer < len(layers):
        raise ValueError(
            f"layer is {layer}; with position encoding {scheme!r} each layer has a bias of its "
            f"own: give layer, 0 .. {len(layers) - 1}"
        )
    return layers[layer].self_attn.position


def _why_nothing(module: PositionEncoding, scheme: str) -> str:
    if module.adds_to_input:
        why = "adds positions to the input (its four correlations are in tupe-plot's figure)"
    elif module.reads_content:
        why = "acts on queries and keys, and on nothing without content"
    else:
        why = "knows no position"
    return (
        f"position encoding {scheme!r} {why}, so no part of the logits depends on positions alone; "
        "look at the attention weights: extract_features(tokens, return_attention=True)"
    )
