"""position_bias.png: the position-to-position matrix of each head."""

from torch import Tensor

from tupe_fairseq.inference.position_terms import terms_by_layer
from tupe_fairseq.plots.subject import NoMeaning, Subject

# panels per row; more would be too small to read
MOST_COLUMNS = 8


def measure(subject: Subject) -> dict[str, Tensor]:
    """The matrices by name: absolute, relative and sum if there are two terms, else the sum.

    Shape:
        (heads shown, T, T) each, rows are queries; for schemes with a bias in each layer, one
        sum for each.
    Raises:
        NoMeaning: if no part of the logits depends on positions alone.
    """
    try:
        by_layer = terms_by_layer(subject.encoder, subject.length)
    except ValueError as error:
        raise NoMeaning(str(error)) from error
    heads = list(subject.heads)
    if None not in by_layer:
        return {f"layer {n + 1}": terms.sum[heads].cpu() for n, terms in by_layer.items()}
    terms = by_layer[None]
    if terms.absolute is None or terms.relative is None:
        name = "relative" if terms.absolute is None else "absolute"
        return {name: terms.sum[heads].cpu()}
    return {name: matrix[heads].cpu() for name, matrix in terms._asdict().items()}


def draw(measured: dict[str, dict[str, Tensor]], subjects: dict[str, Subject]):
    """A grid of matrices, one row per model and term.

    Each matrix has a colour scale of its own, whose end its title names: on a common one the
    strongest head would leave all others white.
    """
    from tupe_fairseq.plots import canvas

    blocks = [
        (label, name, matrices)
        for label, by_name in measured.items()
        for name, matrices in by_name.items()
    ]
    shapes = [canvas.wrapped(len(matrices), MOST_COLUMNS) for _, _, matrices in blocks]
    columns = max(n for _, n in shapes)
    panel = min(max(7 / columns, 1.75), 2.8)  # inches
    heights = [rows * panel + 0.55 for rows, _ in shapes]
    figure = canvas.new_figure(max(panel * columns + 1.5, 5.5), sum(heights) + 0.6)
    figure.suptitle("Position-to-position bias of the attention logits")
    parts = figure.subfigures(len(blocks), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, (label, name, matrices), (rows, _) in zip(parts, blocks, shapes):
        part.suptitle(canvas.plain(f"{label}: {name}"), fontsize="medium")
        axes = part.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for ax in axes.flat[len(matrices) :]:
            ax.set_axis_off()
        for ax, matrix, head in zip(axes.flat, matrices, subjects[label].heads):
            limit, _ = canvas.symmetric_limit([matrix])
            image = ax.imshow(matrix / limit, cmap=canvas.DIVERGING, vmin=-1, vmax=1)
            ax.set_title(f"head {head} (±{limit:.2g})", fontsize="small")
            ax.tick_params(labelsize="x-small")
            # 0, the middle and the last position
            ticks = sorted({0, (len(matrix) - 1) // 2, len(matrix) - 1})
            ax.set(xticks=ticks, yticks=ticks)
        part.supxlabel("key position", fontsize="small")
        part.supylabel("query position", fontsize="small")
        bar = part.colorbar(image, ax=axes, extend="both", ticks=[-1, 0, 1], pad=0.02)
        bar.ax.set_yticklabels(["-limit", "0", "limit"], fontsize="x-small")
        bar.set_label("logit, up to the limit in each title", fontsize="small")
    return figure
