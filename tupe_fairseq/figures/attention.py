"""attention.png, the attention maps of a sentence, and correlations.png, the four correlations of
words and positions when both are in the input."""

import torch
from torch import Tensor, nn

from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.figures import canvas
from tupe_fairseq.figures.plot_input import NotApplicable, PlotInput

NAMES = ("word to word", "word to position", "position to word", "position to position")


@torch.no_grad()
def measure(plot_input: PlotInput) -> Tensor:
    """The attention weights (layers, heads, L, L) of the sentence, rows are queries."""
    if plot_input.sentence is None:
        raise NotApplicable("there is no sentence; give --sentence, or --data with a valid split")
    weights = plot_input.encoder.attention_weights(plot_input.sentence.unsqueeze(0))
    return torch.cat(weights)[:, plot_input.heads]


def draw(weights: Tensor, plot_input: PlotInput):
    """One row per layer, one column per head; tokens are labelled at the outer edges."""
    layers, columns, longest = weights.shape[:3]
    tokens = [canvas.plain(token) for token in plot_input.tokens]
    # inches: 0.17 per token, and at most 30 for the figure, unless panels would become tiny
    panel = max(min(0.17 * longest, 5.0, 30 / columns), 1.7)
    figure = canvas.new_figure(max(panel * columns + 1.6, 6), (panel + 0.25) * layers + 1.4)
    figure.suptitle("Attention maps: each row is what one token attends to")
    axes = figure.subplots(layers, columns, squeeze=False, sharex=True, sharey=True)
    for layer, row in enumerate(weights):
        for ax, head, matrix in zip(axes[layer], plot_input.heads, row):
            image = ax.imshow(matrix, cmap=canvas.SEQUENTIAL, vmin=0, vmax=float(weights.max()))
            ax.set_title(f"layer {layer}, head {head}", fontsize="small")
            if panel >= 0.1 * longest:  # labels of smaller panels would be unreadable
                ax.set_xticks(range(longest), tokens, rotation=90, fontsize="x-small")
                ax.set_yticks(range(longest), tokens, fontsize="x-small")
    figure.supxlabel("attended token (key)")
    figure.supylabel("attending token (query)")
    bar = figure.colorbar(image, ax=axes, pad=0.02, shrink=min(1.0, 4 / (panel * layers)))
    bar.set_label("probability")
    return figure


def four_correlations(encoder: TupeEncoder, words: Tensor) -> Tensor:
    """The content logits of the first layer as a sum of four terms, for input = words + positions.

    (w_i + p_i) W_Q ((w_j + p_j) W_K)^T / sqrt(K), multiplied out; a name has the query's part
    first. Source: Ke, He and Liu 2021, Eq. (6) and Figure 2, https://arxiv.org/abs/2006.15595

    The paper leaves out the LayerNorm between input and attention. Here it is a linear map with the
    mean and the variance of each token's whole input, applied to both parts; its bias and those of
    the projections go to the words. So the four terms add up to the model's own logits.

    Shape: (B, T, D) word embeddings -> (4, B, H, T, T) in the order of NAMES, rows are queries.
    """
    positions = encoder.position.embed(words.size(1)).to(words).expand_as(words)
    parts = _normalised(encoder.layernorm_embedding, words, positions)
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
    scores = [attn.scaling * q @ k.transpose(-2, -1) for q in queries for k in keys]
    return torch.stack(scores)


def _normalised(norm: nn.LayerNorm, words: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """LN(words + positions) as a sum of two terms; see :func:`four_correlations`."""
    whole = words + positions
    scale = torch.rsqrt(whole.var(-1, unbiased=False, keepdim=True) + norm.eps)
    centred = (x - x.mean(-1, keepdim=True) for x in (words, positions))
    of_words, of_positions = (x * scale * norm.weight for x in centred)
    return of_words + norm.bias, of_positions


@torch.no_grad()
def measure_correlations(plot_input: PlotInput) -> Tensor:
    """The four terms (4, T, T), averaged over the text and the heads shown."""
    encoder = plot_input.encoder
    if encoder.position is None or not encoder.position.uses("embed"):
        raise NotApplicable(
            f"position encoding {encoder.config.position_encoding!r} adds nothing to the input"
        )
    if plot_input.words is None:
        raise NotApplicable("it needs text; give --data with a valid split")
    total = torch.zeros(())
    for words in plot_input.words.split(16):
        total = total + four_correlations(encoder, words)[:, :, plot_input.heads].double().sum(
            (1, 2)
        )
    return total / (len(plot_input.words) * len(plot_input.heads))


def draw_correlations(matrices: Tensor, plot_input: PlotInput):
    """Four matrices with one colour scale."""
    figure = canvas.new_figure(13, 4.2)
    mean = f"mean over sentences and heads {', '.join(map(str, plot_input.heads))}"
    figure.suptitle(f"Correlations in the first layer's attention: {mean}")
    axes = figure.subplots(1, 4, sharey=True)
    limit, has_beyond = canvas.symmetric_limit(matrices)
    for ax, matrix, title in zip(axes, matrices, NAMES):
        image = ax.imshow(matrix, cmap=canvas.DIVERGING, vmin=-limit, vmax=limit)
        # only differences within a row change the softmax
        spread = (matrix - matrix.mean(1, keepdim=True)).square().mean().sqrt()
        ax.set_title(f"{title}\nstandard deviation over keys {spread:.2g}", fontsize="medium")
        ax.set_xlabel("key position")
    axes[0].set_ylabel("query position")
    bar = figure.colorbar(image, ax=axes, extend="both" if has_beyond else "neither", pad=0.01)
    bar.set_label("logit")
    return figure
