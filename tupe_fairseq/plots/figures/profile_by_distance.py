"""profile_by_distance.png: the mean bias at each relative position."""

from typing import NamedTuple

import torch
from torch import Tensor

from tupe_fairseq.plots.figures import position_bias
from tupe_fairseq.plots.subject import NoMeaning, Subject


class Profile(NamedTuple):
    """Mean and spread (standard deviation) over the pairs of a relative position.

    Shape:
        offsets (N), mean and spread (H, N).
    """

    offsets: Tensor
    mean: Tensor
    spread: Tensor


def by_offset(bias: Tensor) -> Profile:
    """The profile of a bias, [CLS] (position 0) left out.

    Shape:
        (H, T, T), rows are queries -> N = 2 T - 3 relative positions, from 2 - T to T - 2.
    """
    words = bias[:, 1:, 1:]
    reach = words.size(-1) - 1
    offsets = torch.arange(-reach, reach + 1)
    diagonals = [words.diagonal(int(n), dim1=1, dim2=2).double() for n in offsets]
    mean = torch.stack([d.mean(1) for d in diagonals], 1)
    spread = torch.stack([d.std(1, unbiased=False) for d in diagonals], 1)
    return Profile(offsets, mean, spread)


def measure(subject: Subject) -> dict[str, Profile]:
    """The profiles of the matrices of :func:`position_bias.measure`.

    Raises:
        NoMeaning: as there; or with fewer than two positions in addition to [CLS].
    """
    if subject.length < 3:
        raise NoMeaning(
            f"--length ({subject.length}) is too short: the figure needs two positions "
            "in addition to [CLS]"
        )
    return {name: by_offset(bias) for name, bias in position_bias.measure(subject).items()}


def draw(measured: dict[str, dict[str, Profile]], subjects: dict[str, Subject]):
    """One panel per head; all terms of one model, or the sums of several."""
    from matplotlib import colormaps

    from tupe_fairseq.plots import canvas

    lines = {
        (label, name): profile
        for label, profiles in measured.items()
        for name, profile in profiles.items()
        if len(measured) == 1 or name == list(profiles)[-1] or name.startswith("layer")
    }
    first = next(iter(measured.values()))
    if len(measured) == 1 and next(iter(first)).startswith("layer"):
        shades = colormaps[canvas.BY_LAYER]
        line_colours = [shades(0.9 * n / max(len(lines) - 1, 1)) for n in range(len(lines))]
    elif len(measured) == 1:
        line_colours = canvas.colours(len(lines))
    else:
        by_label = dict(zip(measured, canvas.colours(len(measured))))
        line_colours = [by_label[label] for label, _ in lines]

    heads = sorted({head for label in measured for head in subjects[label].heads})
    rows, columns = canvas.wrapped(len(heads), 4)
    figure = canvas.new_figure(max(2.7 * columns + 0.6, 7.5), 2.4 * rows + 1.6)
    title = "Position bias by relative position\nmean ± standard deviation over pairs without [CLS]"
    if len(measured) == 1:
        title = title.replace("\n", f": {canvas.plain(next(iter(measured)))}\n")
    figure.suptitle(title)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for ax in axes.flat[len(heads) :]:
        ax.set_axis_off()
    for ax, head in zip(axes.flat, heads):
        for ((label, name), profile), colour in zip(lines.items(), line_colours):
            shown = subjects[label].heads
            if head not in shown:
                continue
            mean, spread = (x[shown.index(head)] for x in (profile.mean, profile.spread))
            text = name if len(measured) == 1 else label
            is_more_of_a_label = len(measured) > 1 and name.startswith("layer") and name[6:] != "1"
            ax.plot(
                profile.offsets, mean, color=colour, linewidth=1.2,
                label=None if is_more_of_a_label else canvas.plain(text),
            )  # fmt: skip
            ax.fill_between(
                profile.offsets, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0
            )
        ax.axvline(0, color="0.8", linewidth=0.8, zorder=0)
        ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        ax.set_title(f"head {head}", fontsize="small")
        ax.tick_params(labelsize="x-small")
    for ax in axes[-1]:
        ax.set_xlabel("key minus query (tokens)", fontsize="small")
    figure.supylabel("bias (logit)", fontsize="medium")
    handles, names = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncol=6, fontsize="small")
    return figure
