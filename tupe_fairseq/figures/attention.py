"""The attention maps of a sentence, and the four correlations of words and positions."""

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.figures import canvas
from tupe_fairseq.figures.plot_input import NotApplicable, PlotInput
from tupe_fairseq.inference.position_terms import terms_by_layer
from tupe_fairseq.position.base import HIDDEN

NAMES = ("word to\nword", "word to\nposition", "position to\nword", "position to\nposition")


def _sentence(plot_input: PlotInput) -> Tensor:
    """A batch of the sentence: (1, L, D)."""
    if plot_input.sentence is None:
        raise NotApplicable("there is no sentence; give --sentence, or --data with a valid split")
    return plot_input.sentence[None]


def _labels(plot_input: PlotInput) -> list[str]:
    """The sentence's tokens, without SentencePiece's mark of a space."""
    return [canvas.plain(token.replace("\u2581", "")) for token in plot_input.tokens]


@torch.no_grad()
def attention_weights(plot_input: PlotInput) -> Tensor:
    """The attention weights (layers, heads, L, L) of the sentence, rows are queries."""
    weights = plot_input.encoder.attention_weights(_sentence(plot_input))
    return torch.cat(weights)[:, plot_input.heads]


def draw_attention(plot_input: PlotInput) -> Figure:
    """One row per layer, one column per head; tokens are labelled at the outer edges."""
    weights = attention_weights(plot_input)
    layers, columns, longest = weights.shape[:3]
    tokens = _labels(plot_input)
    # inches: 0.13 per token, and at most 30 for the figure, unless panels would become tiny
    panel = max(min(0.13 * longest, 5.0, 30 / columns), 1.2)
    figure = canvas.new_figure(max(panel * columns + 1.1, 4.5), (panel + 0.25) * layers + 1.4)
    figure.suptitle("Attention maps: each row is\nwhat one token attends to", fontsize="medium")
    axes = figure.subplots(layers, columns, squeeze=False, sharex=True, sharey=True)
    for layer, row in enumerate(weights):
        for ax, head, matrix in zip(axes[layer], plot_input.heads, row):
            image = ax.imshow(
                matrix,
                interpolation="nearest",
                cmap=canvas.SEQUENTIAL,
                vmin=0,
                vmax=float(weights.max()),
            )
            ax.set_title(f"layer {layer}, head {head}", fontsize="small")
            if panel >= 0.1 * longest:  # labels of smaller panels would be unreadable
                ax.set_xticks(range(longest), tokens, rotation=90, fontsize=7)
                ax.set_yticks(range(longest), tokens, fontsize=7)
    figure.supxlabel("attended token (key)", fontsize="medium")
    figure.supylabel("attending token (query)", fontsize="medium")
    bar = figure.colorbar(image, ax=axes, location="bottom", pad=0.02, shrink=0.6, aspect=30)
    bar.set_label("probability")
    return figure


def four_correlations(encoder: TupeEncoder, words: Tensor) -> Tensor:
    """The logits of the first layer as a sum of four terms.

    (w_i + p_i) W_Q ((w_j + p_j) W_K)^T / sqrt(K), multiplied out; a name has the query's part
    first. A position bias is in the last term; if the input has no positions, p = 0, the bias is
    all of that term. Source: Ke, He and Liu 2021, Eq. (6) and Figure 2,
    https://arxiv.org/abs/2006.15595

    The paper leaves out the LayerNorm between input and attention. Here it is a linear map with the
    mean and the variance of each token's whole input, applied to both parts; its bias and those of
    the projections go to the words. So the four terms add up to the model's own logits.

    Shape: (B, T, D) word embeddings -> (4, B, H, T, T) in the order of NAMES, rows are queries.
    """
    length = words.size(1)
    positions, bias = encoder.position.embed(length), encoder.position(length)
    positions = torch.zeros_like(words) if positions is None else positions.to(words)
    parts = _normalised(encoder.layernorm_embedding, words, positions.expand_as(words))
    layer = encoder.layers[0]
    if encoder.config.normalize_before:
        parts = _normalised(layer.self_attn_layer_norm, *parts)
    attn = layer.self_attn
    head_dim = encoder.position.head_dim
    weight_q, weight_k, _ = attn.in_proj_weight.chunk(3)
    bias_q, bias_k, _ = attn.in_proj_bias.chunk(3)

    def project(x: Tensor, weight: Tensor) -> Tensor:  # (B, T, D) -> (B, H, T, K)
        return (x @ weight.t()).unflatten(-1, (attn.num_heads, head_dim)).transpose(1, 2)

    def constant(bias: Tensor) -> Tensor:
        return bias.view(attn.num_heads, 1, head_dim)

    of_words, of_positions = parts
    queries = project(of_words, weight_q) + constant(bias_q), project(of_positions, weight_q)
    keys = project(of_words, weight_k) + constant(bias_k), project(of_positions, weight_k)
    scores = torch.stack([attn.scaling * q @ k.mT for q in queries for k in keys])
    if bias is not None:
        scores[3] += bias.masked_fill(bias == HIDDEN, 0)
    return scores


def _normalised(norm: nn.LayerNorm, words: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """LN(words + positions) as a sum of two terms; see :func:`four_correlations`."""
    whole = words + positions
    scale = torch.rsqrt(whole.var(-1, unbiased=False, keepdim=True) + norm.eps)
    centred = (x - x.mean(-1, keepdim=True) for x in (words, positions))
    of_words, of_positions = (x * scale * norm.weight for x in centred)
    return of_words + norm.bias, of_positions


@torch.no_grad()
def correlations(plot_input: PlotInput) -> Tensor:
    """The four terms (4, heads, L, L) of the sentence."""
    encoder = plot_input.encoder
    if any(encoder.encoding.uses(hook) for hook in ("transform", "content_bias")):
        name = encoder.config.position_encoding
        raise NotApplicable(f"position encoding {name!r} acts with content, not by such a sum")
    return four_correlations(encoder, _sentence(plot_input))[:, 0, plot_input.heads]


def draw_correlations(*plot_inputs: PlotInput) -> Figure:
    """The four terms in a row with one colour scale, for each head of each model."""
    rows = [
        (plot_input, head, four)
        for plot_input in plot_inputs
        for head, four in zip(plot_input.heads, correlations(plot_input).transpose(0, 1))
    ]
    figure = canvas.new_figure(6, 1.9 * len(rows) + 0.8)
    text = "Scores in the first layer, a sum of four terms\nσ: standard deviation over keys"
    figure.suptitle(text, fontsize="medium")
    axes = figure.subplots(len(rows), 4, squeeze=False, sharex="row", sharey="row")
    for row, (plot_input, head, four) in zip(axes, rows):
        config, limit = plot_input.encoder.config, canvas.symmetric_limit(four)
        tokens = _labels(plot_input)
        for ax, matrix, name in zip(row, four, NAMES):
            image = ax.imshow(
                matrix, interpolation="nearest", cmap=canvas.DIVERGING, vmin=-limit, vmax=limit
            )
            # only differences within a row change the softmax
            spread = (matrix - matrix.mean(1, keepdim=True)).square().mean().sqrt()
            ax.set_title(f"{name}, σ {spread:.2g}", fontsize=8)
            ax.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=7)
            ax.set_yticks(range(len(tokens)), tokens, fontsize=7)
        name = config.position_encoding + " --rel-pos" * config.rel_pos
        row[0].set_ylabel(f"{name}\nhead {head}", fontsize=8)
        bar = figure.colorbar(image, ax=row, extend="both", aspect=12, pad=0.01, shrink=0.8)
        bar.set_label("logit", fontsize=8)
    figure.supxlabel("attended token (key); rows: attending token (query)", fontsize=8)
    return figure


@torch.no_grad()
def score_terms(plot_input: PlotInput, head: int) -> dict[str, Tensor]:
    """The terms of TUPE's scores in the first layer for the sentence, their sum, its softmax.

    A term that the model lacks, as TUPE-A that of distance, is 0. Shape: (L, L) each, rows are
    queries.
    """
    words = four_correlations(plot_input.encoder, _sentence(plot_input))[0, 0, head]
    position = terms_by_layer(plot_input.encoder, len(words))[None]
    cls = torch.zeros_like(words, dtype=torch.bool)
    cls[0] = cls[:, 0] = True
    terms = {"words": words}
    for name, term in (("positions", position.absolute), ("distance", position.relative)):
        terms[name] = torch.zeros_like(words) if term is None else term[head].masked_fill(cls, 0)
    terms["[CLS]"] = position.sum[head].masked_fill(~cls, 0)
    total = words + position.sum[head]
    return {**terms, "their sum": total, "attention": total.softmax(-1)}


def draw_terms(plot_input: PlotInput, head: int) -> Figure:
    """The terms of TUPE's scores in the first layer for the sentence, their sum, its softmax."""
    terms, tokens = score_terms(plot_input, head), _labels(plot_input)
    size = max(0.15 * len(tokens), 1.8)
    figure = canvas.new_figure(2 * size + 1.7, 3 * size + 2)
    text = f"First layer, head {head}: from four terms to attention"
    figure.suptitle(text, fontsize="medium")
    axes = figure.subplots(3, 2, sharex=True, sharey=True)
    limit, images = canvas.symmetric_limit(terms["their sum"]), {}
    for ax, (name, matrix) in zip(axes.flat, terms.items()):
        scale = {"cmap": canvas.DIVERGING, "vmin": -limit, "vmax": limit}
        if name == "attention":
            scale = {"cmap": canvas.SEQUENTIAL, "vmin": 0, "vmax": 1}
        images[name] = ax.imshow(matrix, interpolation="nearest", **scale)
        ax.set_title(name, fontsize="medium")
        ax.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=8)
        ax.set_yticks(range(len(tokens)), tokens, fontsize=8)
    figure.colorbar(images["words"], ax=axes[:2], aspect=30, extend="both", label="logit")
    figure.colorbar(images["attention"], ax=axes[2], aspect=15, label="probability")
    figure.supxlabel("attended token (key)", fontsize="medium")
    figure.supylabel("attending token (query)", fontsize="medium")
    return figure
