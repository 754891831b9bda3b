"""What the position vectors of a ``learned`` model add to the attention scores of each layer."""

import copy
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS

# of random words; enough for an average over words, a few seconds of a base size
TOKENS = 4096
# for the LayerNorm of the embedding, which is cheap
_WORDS = 512


class LayerInput(NamedTuple):
    """The average input of a layer, over random sequences of words.

    Args:
        moved (Tensor): by how much the position vectors move it at each position, (L, D).
        word (Tensor): that of a word without them, (D).
        cls (Tensor): that of [CLS] without them, (D).
    """

    moved: Tensor
    word: Tensor
    cls: Tensor


def without_positions(encoder: TupeEncoder, words: Tensor) -> TupeEncoder:
    """A copy that adds to each word the average position vector, and to [CLS] its own.

    Where positions differ no longer, the embedding varies less, and its LayerNorm would make more
    of it; gain and bias of each channel are fitted so that a word is what it was on average.

    Args:
        encoder (TupeEncoder): a ``learned`` model, post-LN.
        words (Tensor): embeddings of some words, (N, D).
    """
    still = copy.deepcopy(encoder)
    with torch.no_grad():
        table = encoder.position.pos.weight
        average = table[1:].mean(0)
        still.position.pos.weight[1:] = average
        norm = still.layernorm_embedding
        before = norm(words + average)
        wanted = torch.zeros_like(before)
        for row in table[1:]:
            wanted += norm(words + row)
        wanted /= len(table) - 1
        before_0, wanted_0 = before - before.mean(0), wanted - wanted.mean(0)
        gain = (before_0 * wanted_0).sum(0) / before_0.pow(2).sum(0).clamp_min(1e-12)
        norm.bias.copy_(norm.bias * gain + wanted.mean(0) - gain * before.mean(0))
        norm.weight.mul_(gain)
    return still


@torch.no_grad()
def layer_inputs(encoder: TupeEncoder, embedding: Tensor) -> tuple[TupeEncoder, tuple]:
    """The same random sequences of words with and without positions, through all layers.

    Both see the same words, so that only what positions do is left between them.

    Args:
        encoder (TupeEncoder): a ``learned`` model, post-LN, in evaluation.
        embedding (Tensor): of the vocabulary, whose first four rows are fairseq's symbols, (V, D).
    Returns:
        tuple: :func:`without_positions`, and the :class:`LayerInput` of each layer.
    """
    length, layers = encoder.config.max_positions, encoder.config.num_layers
    generator = torch.Generator().manual_seed(1)
    first = min(len(BUILT_IN_SYMBOLS), len(embedding) - 1)

    def draw(*size: int) -> Tensor:
        return embedding[torch.randint(first, len(embedding), size, generator=generator)]

    still = without_positions(encoder, draw(_WORDS))
    count = max(4, TOKENS // length)
    sums = [[0.0, 0.0, 0.0] for _ in range(layers)]
    for start in range(0, count, 8):
        x = draw(min(8, count - start), length)
        x[:, 0] = embedding[0]
        moving, resting = (one(x, return_all_hiddens=True)[1] for one in (encoder, still))
        for total, moved, rest in zip(sums, moving, resting):
            total[0] += (moved - rest).sum(0) / count
            total[1] += rest[:, 1:].mean(1).sum(0) / count
            total[2] += rest[:, 0].sum(0) / count
    return still, tuple(LayerInput(*total) for total in sums)


@torch.no_grad()
def position_scores(encoder: TupeEncoder, layer: int, given: LayerInput) -> Tensor:
    """What positions add to the scores of a layer, but for a constant of each row.

    With q, k, c the average query and key of a word and the key of [CLS], and d_i, e_j what
    position i adds to a query and position j to a key, positions add
    (q + d_i) . (k + e_j) - q . k, and for [CLS] (q + d_i) . (c + e_0) - q . c.  The softmax does
    not see (q + d_i) . (c + e_0) - q . k taken from row i, after which [CLS] has the same score
    in all rows, as in TUPE.

    Args:
        encoder (TupeEncoder): the ``learned`` model.
        layer (int): its number.
        given (LayerInput): its average input.
    Shape:
        (H, L - 1, L): of the positions from 1 on, rows are queries; the first column is [CLS]'s,
        the same in all rows.
    """
    attention = encoder.layers[layer].self_attn
    weight, bias = attention.in_proj_weight, attention.in_proj_bias
    heads, dim = encoder.config.num_heads, encoder.config.embed_dim

    def project(part: int, x: Tensor) -> Tensor:
        rows = slice(part * dim, (part + 1) * dim)
        return F.linear(x, weight[rows], bias[rows]).view(-1, heads, dim // heads).transpose(0, 1)

    query, key = project(0, given.word), project(1, given.word)
    queries = project(0, given.word + given.moved[1:])
    keys = project(1, given.word + given.moved[1:])
    cls, moved_cls = project(1, given.cls), project(1, given.cls + given.moved[0])
    to_words = queries @ (keys - moved_cls).transpose(1, 2)
    to_cls = query @ (key - cls).transpose(1, 2)
    scores = torch.cat([to_cls.expand(-1, len(given.moved) - 1, 1), to_words], dim=-1)
    return scores * (dim // heads) ** -0.5


def centred(scores: Tensor) -> Tensor:
    """As the softmax sees them: less the mean of each row."""
    return scores - scores.mean(-1, keepdim=True)
