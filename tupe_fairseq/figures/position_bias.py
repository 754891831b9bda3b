"""position_bias.png and profile_by_distance.png: what positions alone add to the logits."""

from typing import NamedTuple

import torch
from matplotlib import colormaps
from torch import Tensor

from tupe_fairseq.figures import canvas
from tupe_fairseq.figures.plot_input import NotApplicable, PlotInput
from tupe_fairseq.inference.position_terms import terms_by_layer

# panels per row; more would be too small to read
_MOST_COLUMNS = 6


def measure(plot_input: PlotInput) -> dict[str, Tensor]:
    """The matrices (heads, T, T), rows are queries: absolute, relative and their sum.

    If a scheme has only one of the two, that one; if it has a bias in each layer, each one's sum.
    """
    try:
        by_layer = terms_by_layer(plot_input.encoder, plot_input.length)
    except ValueError as error:
        raise NotApplicable(str(error)) from error
    if None not in by_layer:
        return {f"layer {n}": terms.sum[plot_input.heads] for n, terms in by_layer.items()}
    terms = by_layer[None]
    if terms.absolute is None or terms.relative is None:
        name = "relative" if terms.absolute is None else "absolute"
        return {name: terms.sum[plot_input.heads]}
    return {name: matrix[plot_input.heads] for name, matrix in terms._asdict().items()}


def draw(terms: dict[str, Tensor], plot_input: PlotInput):
    """A grid of matrices for each term.

    Each matrix has its own colour scale: with a common one, the strongest head would leave all
    others white.
    """
    _, columns = canvas.wrapped(len(plot_input.heads), _MOST_COLUMNS)
    panels = []
    for term, matrices in terms.items():
        heads = list(zip(plot_input.heads, matrices))
        panels += [(term, heads[n : n + columns]) for n in range(0, len(heads), columns)]
    figure = canvas.new_figure(max(2.45 * columns + 0.7, 5.5), 2.1 * len(panels) + 0.6)
    figure.suptitle("Position bias (logit)")
    axes = figure.subplots(len(panels), columns, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for row, (term, heads) in zip(axes, panels):
        for ax, (head, matrix) in zip(row, heads):
            limit, has_beyond = canvas.symmetric_limit(matrix)
            ax.set_axis_on()
            image = ax.imshow(matrix, cmap=canvas.DIVERGING, vmin=-limit, vmax=limit)
            ax.set_title(f"head {head}", fontsize="medium")
            # the first, the middle and the last position
            ticks = sorted({0, (len(matrix) - 1) // 2, len(matrix) - 1})
            ax.set(xticks=ticks, yticks=ticks)
            ends, extend = [-limit, 0, limit], "both" if has_beyond else "neither"
            bar = figure.colorbar(image, ax=ax, ticks=ends, extend=extend, aspect=15, shrink=0.9)
            bar.ax.set_yticklabels([f"{x:.2g}" for x in ends])
        row[0].set_ylabel(f"{term}\nquery position")
    for ax in axes[-1]:
        ax.set_xlabel("key position")
    return figure


class Profile(NamedTuple):
    """Mean and standard deviation (H, N) over the pairs of each of N relative positions."""

    offsets: Tensor
    mean: Tensor
    spread: Tensor


def by_offset(bias: Tensor) -> Profile:
    """The profile of a bias (H, T, T) without [CLS]: relative positions 2 - T to T - 2."""
    words = bias[:, 1:, 1:]
    reach = words.size(-1) - 1
    offsets = torch.arange(-reach, reach + 1)
    diagonals = [words.diagonal(int(n), dim1=1, dim2=2).double() for n in offsets]
    mean = torch.stack([d.mean(1) for d in diagonals], 1)
    spread = torch.stack([d.std(1, unbiased=False) for d in diagonals], 1)
    return Profile(offsets, mean, spread)


def measure_profile(plot_input: PlotInput) -> dict[str, Profile]:
    """The profiles of the matrices of :func:`measure`."""
    if plot_input.length < 3:
        raise NotApplicable(f"--length ({plot_input.length}) is below 3: [CLS] and two positions")
    return {term: by_offset(bias) for term, bias in measure(plot_input).items()}


def draw_profile(profiles: dict[str, Profile], plot_input: PlotInput):
    """One panel per head, with a line for each term or layer."""
    colours = canvas.COLOURS
    if "layer 0" in profiles:
        shade = colormaps[canvas.BY_LAYER]
        colours = [shade(0.9 * n / len(profiles)) for n in range(len(profiles))]
    heads = plot_input.heads
    rows, columns = canvas.wrapped(len(heads), 4)
    figure = canvas.new_figure(max(2.7 * columns + 0.6, 7.5), 2.4 * rows + 1.6)
    figure.suptitle("Position bias by relative position\nmean ± standard deviation, without [CLS]")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for ax in axes.flat[len(heads) :]:
        ax.set_axis_off()
    for row, (ax, head) in enumerate(zip(axes.flat, heads)):
        for (term, profile), colour in zip(profiles.items(), colours):
            mean, spread = profile.mean[row], profile.spread[row]
            ax.plot(profile.offsets, mean, color=colour, lw=1.4, label=term)
            band = {"color": colour, "alpha": 0.15, "linewidth": 0}
            ax.fill_between(profile.offsets, mean - spread, mean + spread, **band)
        ax.axvline(0, color="0.8", linewidth=0.8, zorder=0)
        ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        ax.set_title(f"head {head}", fontsize="medium")
    for ax in axes[-1]:
        ax.set_xlabel("key - query position")
    figure.supylabel("bias (logit)", fontsize="medium")
    handles = axes.flat[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncol=6, frameon=False)
    return figure
