"""attention.png: the attention maps of one sentence."""

import torch
from torch import Tensor

from tupe_fairseq.figures import canvas
from tupe_fairseq.figures.plot_input import NotApplicable, PlotInput


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
