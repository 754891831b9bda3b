"""Makes TUPE-A of a model with learned positions: ``tupe-convert --untie``.

A ``learned`` model adds a position vector to each word, so that positions also reach queries, keys
and values. Here all words get the mean of these vectors, and one position bias for all layers is
fitted to what the vectors added to the attention scores of each layer.
"""

import argparse
import copy
import dataclasses
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe_fairseq.checkpoint.checkpoint import EMBEDDING, ENCODER, LM_HEAD, CheckpointError
from tupe_fairseq.checkpoint.convert import Model
from tupe_fairseq.data.dictionary import BOS, PAD, SPECIAL_TOKENS
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.modules.record import RECORD, options_record
from tupe_fairseq.options import POSITION_OPTIONS, TupeConfig, flag
from tupe_fairseq.position import UntiedAbsoluteBias

#: How much of the position scores the bias is fitted to. Measured with one model of three layers,
#: of which the first had nearly all: half cost 0.05 bits at the start, and after 1,200 updates was
#: 0.04 bits better, since the whole nearly fixes where the other layers look.
SOFTENED = 0.5
# of random words; enough for an average over words, a few seconds of a base size
_TOKENS = 4096
# for the LayerNorm of the embedding, which is cheap
_WORDS = 512
_FEWEST = 3
# the row of the table with which others look at [CLS]
_OTHER_TO_CLS = 1
# singular values below are noise
_NOTHING = 1e-3


def untie(model: Model) -> Model:
    """The TUPE-A that is nearest to a model with learned positions.

    The words get the mean position vector, ``<s>`` that of its position; queries and keys are
    scaled for TUPE's 1 / sqrt(2 d); the bias is fitted to half (``SOFTENED``) the mean of what
    positions add to the scores of each layer, a head of a layer weighing as much as its scores
    vary. What positions add to the values is lost, so continued training must follow.
    """
    options, old = model.options, model.tensors
    _check_options(options)
    encoder = TupeEncoder(TupeConfig.from_roberta_options(options)).eval()
    encoder.load_state_dict(
        {name[len(ENCODER) :]: tensor.clone() for name, tensor in old.items()
         if name.startswith(ENCODER) and name != EMBEDDING}
    )  # fmt: skip
    resting, inputs = layer_inputs(encoder, old[EMBEDDING])
    scores = [position_scores(encoder, layer, one) for layer, one in enumerate(inputs)]
    weights = torch.stack([centred(one).pow(2).mean((1, 2)) for one in scores])
    shares = weights / weights.sum(0).clamp_min(torch.finfo(weights.dtype).tiny)
    mean = sum(share[:, None, None] * one for share, one in zip(shares, scores))
    bias = fit_bias(SOFTENED * mean, options.encoder_embed_dim)

    options = argparse.Namespace(**{**vars(options), "position_encoding": "tupe"})
    new = {**old, **_words_and_scales(old)}
    del new[f"{ENCODER}position_bias.pos.weight"]
    for name, tensor in resting.layernorm_embedding.state_dict().items():
        new[f"{ENCODER}layernorm_embedding.{name}"] = tensor
    for name, tensor in bias.state_dict().items():
        new[f"{ENCODER}position_bias.untied_absolute.{name}"] = tensor
    new[ENCODER + RECORD] = options_record(TupeConfig.from_roberta_options(options))
    new = {name: tensor.detach().clone() for name, tensor in new.items()}
    if not getattr(options, "untie_weights_roberta", False):
        new[LM_HEAD + "weight"] = new[EMBEDDING]
    remarks = [*model.remarks, *_explained(scores, fitted_scores(bias).detach())]
    return dataclasses.replace(model, tensors=new, options=options, remarks=remarks)


def _check_options(options: argparse.Namespace) -> None:
    extra = [name for name in POSITION_OPTIONS if getattr(options, name, None)]
    if options.position_encoding != "learned" or extra:
        what = " ".join([options.position_encoding, *map(flag, extra)])
        raise CheckpointError(
            f"--untie starts from learned positions without further options, and this is {what}"
        )
    if options.encoder_normalize_before:
        raise CheckpointError("--untie is for post-LN, and this has --encoder-normalize-before")
    if options.max_positions < _FEWEST:
        raise CheckpointError(
            f"--untie needs {_FEWEST} positions, and this has {options.max_positions}"
        )


def _words_and_scales(model: dict[str, Tensor]) -> dict[str, Tensor]:
    """The word embedding with positions in it, and the rescaled queries and keys."""
    words, table = model[EMBEDDING].clone(), model[f"{ENCODER}position_bias.pos.weight"]
    padding, cls = words[PAD].clone(), words[BOS] + table[0]
    words += table[1:].mean(0)
    words[BOS], words[PAD] = cls, padding
    changed = {EMBEDDING: words}
    for name, tensor in model.items():
        if name.startswith(ENCODER) and ".self_attn.in_proj_" in name:
            tensor = tensor.clone()
            tensor[: len(tensor) // 3 * 2] *= 2**0.25  # once in the queries, once in the keys
            changed[name] = tensor
    return changed


def _explained(scores: list[Tensor], bias: Tensor) -> list[str]:
    """How much of the variance of each layer's scores the bias has."""
    lines = []
    for layer, one in enumerate(scores):
        whole, left = centred(one).pow(2).mean(), centred(bias - one).pow(2).mean()
        share = max(0.0, float(1 - left / whole)) if whole > 0 else 0.0
        lines.append(
            f"layer {layer}: positions moved the scores by {whole.sqrt():.3g} (standard "
            f"deviation); the bias of all layers has {100 * share:.1f} % of that variance"
        )
    return [
        *lines,
        "TUPE-A, NOT YET AS GOOD AS WHAT IT WAS MADE OF: train it on before you use it, since "
        "positions no longer reach the values, and all layers share one bias",
    ]


# ---- What positions add to the scores -----------------------------------------------------------


class LayerInput(NamedTuple):
    """The average input of a layer, over random sequences of words."""

    moved: Tensor  # by the position vectors at each position, (L, D)
    word: Tensor  # without them, (D)
    cls: Tensor  # of [CLS] without them, (D)


@torch.no_grad()
def without_positions(encoder: TupeEncoder, words: Tensor) -> TupeEncoder:
    """A copy that adds to each word the average position vector, and to [CLS] its own.

    Where positions differ no longer, the embedding varies less, and its LayerNorm would make more
    of it; gain and bias of each channel are fitted so that a word is what it was on average.

    Shape: embeddings of some words (N, D).
    """
    resting = copy.deepcopy(encoder)
    table = encoder.position.pos.weight
    average = table[1:].mean(0)
    resting.position.pos.weight[1:] = average
    norm = resting.layernorm_embedding
    before = norm(words + average)
    wanted = torch.zeros_like(before)
    for row in table[1:]:
        wanted += norm(words + row)
    wanted /= len(table) - 1
    before_0, wanted_0 = before - before.mean(0), wanted - wanted.mean(0)
    gain = (before_0 * wanted_0).sum(0) / before_0.pow(2).sum(0).clamp_min(1e-12)
    norm.bias.copy_(norm.bias * gain + wanted.mean(0) - gain * before.mean(0))
    norm.weight.mul_(gain)
    return resting


@torch.no_grad()
def layer_inputs(encoder: TupeEncoder, embedding: Tensor) -> tuple[TupeEncoder, list[LayerInput]]:
    """:func:`without_positions`, and the same random sequences through both models.

    Shape: the word embedding (V, D) -> an input for each layer.
    """
    length, layers = encoder.config.max_positions, encoder.config.num_layers
    generator = torch.Generator().manual_seed(1)
    first = min(len(SPECIAL_TOKENS), len(embedding) - 1)

    def draw(*size: int) -> Tensor:
        return embedding[torch.randint(first, len(embedding), size, generator=generator)]

    resting = without_positions(encoder, draw(_WORDS))
    count = max(4, _TOKENS // length)
    sums = [[0.0, 0.0, 0.0] for _ in range(layers)]
    for start in range(0, count, 8):
        x = draw(min(8, count - start), length)
        x[:, 0] = embedding[BOS]
        with_them, without = (one(x, return_all_hiddens=True)[1] for one in (encoder, resting))
        for total, moved, rest in zip(sums, with_them, without):
            total[0] += (moved - rest).sum(0) / count
            total[1] += rest[:, 1:].mean(1).sum(0) / count
            total[2] += rest[:, 0].sum(0) / count
    return resting, [LayerInput(*total) for total in sums]


@torch.no_grad()
def position_scores(encoder: TupeEncoder, layer: int, x: LayerInput) -> Tensor:
    """What positions add to the scores of a layer, but for a constant of each row.

    With q, k, c the average query and key of a word and the key of [CLS], and d_i, e_j what
    position i adds to a query and position j to a key, positions add
    (q + d_i) . (k + e_j) - q . k, and for [CLS] (q + d_i) . (c + e_0) - q . c.  The softmax does
    not see (q + d_i) . (c + e_0) - q . k taken from row i, after which [CLS] has the same score
    in all rows, as in TUPE.

    Shape: (H, L - 1, L): of the positions from 1 on, rows are queries; the first column is [CLS]'s.
    """
    attention = encoder.layers[layer].self_attn
    weight, bias = attention.in_proj_weight, attention.in_proj_bias
    heads, dim = encoder.config.num_heads, encoder.config.embed_dim

    def project(part: int, x: Tensor) -> Tensor:
        rows = slice(part * dim, (part + 1) * dim)
        return F.linear(x, weight[rows], bias[rows]).view(-1, heads, dim // heads).transpose(0, 1)

    query, key = project(0, x.word), project(1, x.word)
    queries, keys = project(0, x.word + x.moved[1:]), project(1, x.word + x.moved[1:])
    cls, moved_cls = project(1, x.cls), project(1, x.cls + x.moved[0])
    to_words = queries @ (keys - moved_cls).transpose(1, 2)
    to_cls = query @ (key - cls).transpose(1, 2)
    scores = torch.cat([to_cls.expand(-1, len(x.moved) - 1, 1), to_words], dim=-1)
    return scores * (dim // heads) ** -0.5


def centred(scores: Tensor) -> Tensor:
    """As the softmax sees them: less the mean of each row."""
    return scores - scores.mean(-1, keepdim=True)


# ---- The bias with these scores -----------------------------------------------------------------


def fit_bias(scores: Tensor, embed_dim: int) -> UntiedAbsoluteBias:
    """The bias with these scores of words as queries, the same each time.

    The best queries and keys of each head come from a singular value decomposition. A table of
    fewer rows than columns gives any; a longer one has the directions that matter most.

    Shape: as of :func:`position_scores`.
    """
    heads, _, length = scores.shape
    head_dim = embed_dim // heads
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        bias = UntiedAbsoluteBias(embed_dim, heads, length, scaling=(2 * head_dim) ** -0.5)
        queries, keys = _decomposed(scores / bias.scaling, head_dim, embed_dim)
        _set_table(bias, torch.cat([queries, keys], dim=1))
        _set_projections(bias, queries, keys)
    return bias


def _decomposed(scores: Tensor, head_dim: int, embed_dim: int) -> tuple[Tensor, Tensor]:
    """The queries and keys of each row of the table, (L + 1, D) each.

    A component without use has a random query and no key, so that training can begin to use it.
    """
    heads, _, length = scores.shape
    queries, keys = torch.zeros(2, length + 1, heads, head_dim)
    first = _OTHER_TO_CLS + 1
    queries[_OTHER_TO_CLS, :, 0] = 1
    keys[_OTHER_TO_CLS, :, 0] = scores[:, 0, 0]
    left, size, right = torch.linalg.svd(scores[..., 1:])
    used = min(head_dim, length - 1)
    size = size[:, :used]
    roots = torch.where(size > _NOTHING, size, torch.zeros_like(size)).sqrt()
    queries[first:, :, :used] = (left[..., :used] * roots[:, None]).transpose(0, 1)
    keys[first:, :, :used] = (right[:, :used] * roots[..., None]).permute(2, 0, 1)
    unused = torch.ones(heads, head_dim, dtype=torch.bool)
    unused[:, :used] = roots == 0
    fresh = torch.randn(length - 1, heads, head_dim) * 0.02 * embed_dim**0.5
    queries[first:] = torch.where(unused, fresh, queries[first:])
    return queries.flatten(1), keys.flatten(1)


@torch.no_grad()
def _set_table(bias: UntiedAbsoluteBias, wanted: Tensor) -> None:
    """Rows from which the wanted vectors can be had by a linear map, as big as new ones."""
    rows, dim = bias.pos.weight.shape
    # LayerNorm takes out the mean: directions without one
    basis = torch.linalg.qr(torch.cat([torch.ones(dim, 1), torch.randn(dim, dim - 1)], 1))[0][:, 1:]
    left, size, _ = torch.linalg.svd(wanted, full_matrices=False)
    used = min(rows, dim - 1, left.size(1))
    if rows > used:  # not all rows can be independent, so that sizes matter
        left = left * size.sqrt()
    else:
        left, used = torch.eye(rows), rows
    table = left[:, :used] @ basis[:, :used].T
    table /= table.pow(2).mean(1, keepdim=True).sqrt().clamp_min(1e-6)
    bias.pos.weight.copy_(table * 0.02)


@torch.no_grad()
def _set_projections(bias: UntiedAbsoluteBias, queries: Tensor, keys: Tensor) -> None:
    """Least squares."""
    normed = bias.pos_ln(bias.pos.weight)
    inverse = torch.linalg.pinv(torch.cat([normed, torch.ones(len(normed), 1)], 1))
    for projection, wanted in ((bias.pos_q_proj, queries), (bias.pos_k_proj, keys)):
        solution = inverse @ wanted
        projection.weight.copy_(solution[:-1].T)
        projection.bias.copy_(solution[-1])


def fitted_scores(bias: UntiedAbsoluteBias) -> Tensor:
    """What :func:`fit_bias` was given, as the bias has it."""
    return bias(bias.max_positions)[:, 1:]
