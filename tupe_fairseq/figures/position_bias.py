"""What positions alone add to the logits: as matrices, and by relative position."""

from typing import NamedTuple

import torch
from matplotlib import colormaps
from matplotlib.figure import Figure
from torch import Tensor

from tupe_fairseq.figures import canvas
from tupe_fairseq.figures.plot_input import NotApplicable, PlotInput
from tupe_fairseq.inference.position_terms import terms_by_layer

# panels per row; more would be too small to read
_MOST_COLUMNS = 4


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


def draw_position_bias(plot_input: PlotInput) -> Figure:
    """A grid of matrices for each term.

    Each matrix has its own colour scale: with a common one, the strongest head would leave all
    others white.
    """
    columns = min(len(plot_input.heads), _MOST_COLUMNS)
    panels = []
    for term, matrices in measure(plot_input).items():
        heads = list(zip(plot_input.heads, matrices))
        panels += [(term, heads[n : n + columns]) for n in range(0, len(heads), columns)]
    figure = canvas.new_figure(max(1.3 * columns + 0.5, 4), 1.6 * len(panels) + 0.7)
    text = "Position bias (± where its colours end, in logits)"
    figure.suptitle(text, fontsize="medium")
    axes = figure.subplots(len(panels), columns, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for row, (term, heads) in zip(axes, panels):
        for ax, (head, matrix) in zip(row, heads):
            limit = canvas.symmetric_limit(matrix)
            ax.set_axis_on()
            ax.imshow(
                matrix, interpolation="nearest", cmap=canvas.DIVERGING, vmin=-limit, vmax=limit
            )
            ax.set_title(f"head {head} (±{limit:.2g})", fontsize="medium")
            ends = [0, len(matrix) - 1]  # the first and the last position
            ax.set(xticks=ends, yticks=ends if ax is row[0] else [])
        row[0].set_ylabel(term)
    figure.supxlabel("key position (rows: query position)", fontsize="medium")
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


def draw_profile_by_distance(plot_input: PlotInput) -> Figure:
    """One panel per head, with a line for each term or layer."""
    profiles = measure_profile(plot_input)
    colours = canvas.COLOURS
    if "layer 0" in profiles:
        shade = colormaps[canvas.BY_LAYER]
        colours = [shade(0.9 * n / len(profiles)) for n in range(len(profiles))]
    heads = plot_input.heads
    rows, columns = canvas.wrapped(len(heads), 2)
    figure = canvas.new_figure(5.5, 2 * rows + 1.4)
    text = "Position bias by relative position\nmean ± standard deviation, without [CLS]"
    figure.suptitle(text, fontsize="medium")
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
        ax.set_xlabel("key - query position, tokens")
    figure.supylabel("bias (logit)", fontsize="medium")
    handles = axes.flat[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncol=4, frameon=False)
    return figure
