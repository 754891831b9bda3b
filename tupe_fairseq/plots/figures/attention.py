"""attention.png: the attention maps of one sentence."""

import torch
from torch import Tensor

from tupe_fairseq.plots.subject import NoMeaning, Subject


@torch.no_grad()
def measure(subject: Subject) -> Tensor:
    """The attention weights of the sentence.

    Shape:
        (layers, heads shown, L, L), rows are queries.
    Raises:
        NoMeaning: if there is no sentence.
    """
    if subject.sentence is None:
        raise NoMeaning("there is no sentence; give --sentence or --sentences")
    weights = subject.encoder.attention_weights(subject.sentence.unsqueeze(0))
    return torch.cat(weights)[:, list(subject.heads)].cpu()


def draw(measured: dict[str, Tensor], subjects: dict[str, Subject]):
    """One row per layer, one column per head and model; tokens are labelled at the outer edges."""
    from tupe_fairseq.plots import canvas

    longest = max(weights.size(-1) for weights in measured.values())
    columns = sum(weights.size(1) for weights in measured.values())
    highest = max(float(weights.max()) for weights in measured.values())
    # inches: 0.17 per token, but a figure of 30 at most unless panels become tiny
    panel = max(min(0.17 * longest, 5.0, 30 / columns), 1.7)
    # smaller labels would be unreadable
    has_labels = panel >= 0.1 * longest
    widths = [panel * weights.size(1) + 1.6 for weights in measured.values()]
    layers = max(len(weights) for weights in measured.values())
    figure = canvas.new_figure(max(sum(widths), 6), (panel + 0.25) * layers + 1.6)
    figure.suptitle("Attention maps: each row is what one token attends to")
    parts = figure.subfigures(1, len(measured), width_ratios=widths, squeeze=False)[0]
    for part, (label, weights) in zip(parts, measured.items()):
        subject = subjects[label]
        part.suptitle(canvas.plain(label), fontsize="medium")
        axes = part.subplots(layers, weights.size(1), squeeze=False, sharex=True, sharey=True)
        names = [canvas.plain(piece) for piece in subject.pieces]
        for n, row in enumerate(axes):
            for ax, head, matrix in zip(row, subject.heads, weights[n] if n < len(weights) else []):
                image = ax.imshow(matrix, cmap=canvas.SEQUENTIAL, vmin=0, vmax=highest)
                ax.set_title(f"layer {n + 1}, head {head}", fontsize="small")
                if has_labels:
                    ax.set_xticks(range(len(names)))
                    ax.set_xticklabels(names, rotation=90, fontsize=6)
                    ax.set_yticks(range(len(names)))
                    ax.set_yticklabels(names, fontsize=6)
            if n >= len(weights):
                for ax in row:
                    ax.set_axis_off()
        part.supxlabel("attended token (key)", fontsize="small")
        part.supylabel("attending token (query)", fontsize="small")
        bar = part.colorbar(image, ax=axes, pad=0.02, shrink=min(1.0, 4 / (panel * layers)))
        bar.set_label("probability", fontsize="small")
    return figure
