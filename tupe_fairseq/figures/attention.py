"""attention.png: the attention maps of one sentence."""

import torch
from torch import Tensor

from tupe_fairseq.figures import canvas
from tupe_fairseq.figures.plot_input import NotApplicable, PlotInput


@torch.no_grad()
def measure(plot_input: PlotInput) -> Tensor:
    """The attention weights (layers, heads, L, L) of the sentence, rows are queries."""
    if plot_input.sentence is None:
        raise NotApplicable("there is no sentence; give --sentence or --sentences")
    weights = plot_input.encoder.attention_weights(plot_input.sentence.unsqueeze(0))
    return torch.cat(weights)[:, plot_input.heads]


def draw(measured: dict[str, Tensor], inputs: dict[str, PlotInput]):
    """One row per layer, one column per head and model; tokens are labelled at the outer edges."""
    longest = max(weights.size(-1) for weights in measured.values())
    columns = sum(weights.size(1) for weights in measured.values())
    highest = max(float(weights.max()) for weights in measured.values())
    # inches: 0.17 per token, but a figure of 30 at most unless panels become tiny
    panel = max(min(0.17 * longest, 5.0, 30 / columns), 1.7)
    has_labels = panel >= 0.1 * longest  # smaller ones would be unreadable
    widths = [panel * weights.size(1) + 1.6 for weights in measured.values()]
    layers = max(len(weights) for weights in measured.values())
    figure = canvas.new_figure(max(sum(widths), 6), (panel + 0.25) * layers + 1.6)
    figure.suptitle("Attention maps: each row is what one token attends to")
    parts = figure.subfigures(1, len(measured), width_ratios=widths, squeeze=False)[0]
    for part, (name, weights) in zip(parts, measured.items()):
        plot_input = inputs[name]
        part.suptitle(canvas.plain(name))
        axes = part.subplots(layers, weights.size(1), squeeze=False, sharex=True, sharey=True)
        tokens = [canvas.plain(token) for token in plot_input.tokens]
        for ax in axes[len(weights) :].flat:
            ax.set_axis_off()
        for layer, row in enumerate(weights):
            for ax, head, matrix in zip(axes[layer], plot_input.heads, row):
                image = ax.imshow(matrix, cmap=canvas.SEQUENTIAL, vmin=0, vmax=highest)
                ax.set_title(f"layer {layer}, head {head}", fontsize="small")
                if has_labels:
                    ax.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize="x-small")
                    ax.set_yticks(range(len(tokens)), tokens, fontsize="x-small")
        part.supxlabel("attended token (key)")
        part.supylabel("attending token (query)")
        bar = part.colorbar(image, ax=axes, pad=0.02, shrink=min(1.0, 4 / (panel * layers)))
        bar.set_label("probability")
    return figure
