"""variance.png: how much of the hidden states' variance position and word explain."""

from typing import NamedTuple

import torch
from torch import Tensor

from tupe_fairseq.figures import canvas
from tupe_fairseq.figures.plot_input import NotApplicable, PlotInput


class Shares(NamedTuple):
    """Shares of the variance of the embeddings, then of each layer's output.

    By chance: (groups - 1) / (tokens - 1), what random groups explain on average.
    """

    position: list[float]
    token: list[float]
    position_by_chance: float
    token_by_chance: float


def explained_share(states: Tensor, groups: Tensor) -> float:
    """The share of the variance that is between the means of groups, all dimensions together.

    share = sum_g n_g |mean_g - mean|^2 / sum_x |x - mean|^2

    Shape: states (N, D), groups (N), integers from 0 -> a number in 0 .. 1.
    """
    states = states.double() - states.double().mean(0)
    total = states.square().sum()
    if total == 0:
        return 0.0
    counts = torch.bincount(groups).clamp(min=1).unsqueeze(1)
    sums = states.new_zeros(len(counts), states.size(1)).index_add_(0, groups, states)
    return float((sums.square() / counts).sum() / total)


@torch.no_grad()
def measure(plot_input: PlotInput) -> Shares:
    """The shares of position and of the token's identity.

    [CLS] is left out: always the same token at the same position, it would count for both.
    """
    plot_input.need_text()
    if plot_input.blocks.size(1) < 3:
        raise NotApplicable("the sequences have only one token in addition to [CLS]")
    hiddens = [
        plot_input.encoder(words, return_all_hiddens=True)[1]
        for words in plot_input.words.split(16)
    ]
    tokens = plot_input.blocks[:, 1:]
    positions = torch.arange(tokens.size(1)).expand_as(tokens).reshape(-1)
    kinds, identities = torch.unique(tokens.reshape(-1), return_inverse=True)
    layers = [torch.cat(parts)[:, 1:].flatten(0, 1) for parts in zip(*hiddens)]
    others = tokens.numel() - 1
    return Shares(
        [explained_share(states, positions) for states in layers],
        [explained_share(states, identities) for states in layers],
        (tokens.size(1) - 1) / others,
        (len(kinds) - 1) / others,
    )


def draw(measured: dict[str, Shares], inputs: dict[str, PlotInput]):
    """Two panels, layer by layer; dotted lines are what chance explains."""
    figure = canvas.new_figure(10, 4.8)
    sizes = sorted({tuple(inputs[name].blocks.shape) for name in measured})
    text = " and ".join(f"{n} sequences of {length} tokens" for n, length in sizes)
    figure.suptitle(f"Explained variance of the hidden states ({text}, without [CLS])")
    axes = figure.subplots(1, 2, sharex=True)
    titles = {"position": "by the position", "token": "by the token"}
    for ax, (key, title) in zip(axes, titles.items()):
        for (name, shares), colour in zip(measured.items(), canvas.colours(len(measured))):
            values = [100 * share for share in getattr(shares, key)]
            # -1: the embeddings, before layer 0
            ax.plot(
                range(-1, len(values) - 1), values, "o-", color=colour, label=canvas.plain(name)
            )
            chance = 100 * getattr(shares, f"{key}_by_chance")
            ax.axhline(chance, color=colour, linestyle=":", linewidth=1)
        ax.set(title=title, xlabel="after layer (dotted: by chance)")
        ax.set_ylabel("share of the variance (%)")
        canvas.from_zero(ax)
    layers = max(len(shares.position) for shares in measured.values()) - 1
    shown = range(0, layers, -(-layers // 12))
    axes[0].set_xticks([-1, *shown], ["input", *map(str, shown)])
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncol=4, frameon=False)
    return figure
