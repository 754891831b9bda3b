"""variance.png: how much of the hidden states' variance position and word explain."""

from typing import NamedTuple

import torch
from torch import Tensor

from tupe_fairseq.plots.subject import NoMeaning, Subject, with_text


class Shares(NamedTuple):
    """Shares of the variance of the hidden states, and what random labels would get.

    Args:
        position, token (list of float): of the embedding output, then of each layer's output.
        position_by_chance, token_by_chance (float): (groups - 1) / (tokens - 1), what a random
            assignment to as many groups explains on average.
    """

    position: list[float]
    token: list[float]
    position_by_chance: float
    token_by_chance: float


def explained_share(states: Tensor, groups: Tensor) -> float:
    """The share of the variance that is between the means of groups.

    share = sum_g n_g |mean_g - mean|^2 / sum_x |x - mean|^2, all dimensions together.

    Args:
        states (Tensor): hidden states.
        groups (Tensor): the group of each, integers from 0 on.
    Shape:
        (N, D), (N) -> a number in 0 .. 1; 0 if all states are equal.
    """
    states = states.double() - states.double().mean(0)
    total = states.square().sum()
    if total == 0:
        return 0.0
    counts = torch.bincount(groups).clamp(min=1).unsqueeze(1)
    sums = states.new_zeros(len(counts), states.size(1)).index_add_(0, groups, states)
    return float((sums.square() / counts).sum() / total)


@torch.no_grad()
def measure(subject: Subject) -> Shares:
    """The shares of position and of the token's identity, layer by layer.

    [CLS] is left out: it is always the same token at the same position, so its
    share would count for both.

    Raises:
        NoMeaning: if there is no text.
    """
    subject = with_text(subject)
    if subject.blocks.size(1) < 3:
        raise NoMeaning("the sequences have only one token in addition to [CLS]; raise --length")
    hiddens = []
    for words in subject.words.split(16):
        hiddens.append(subject.encoder(words, return_all_hiddens=True)[1])
    tokens = subject.blocks[:, 1:]
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


def draw(measured: dict[str, Shares], subjects: dict[str, Subject]):
    """Two panels, layer by layer; dotted lines are what chance explains."""
    from tupe_fairseq.plots import canvas

    figure = canvas.new_figure(10, 4.4)
    sizes = sorted({tuple(subjects[label].blocks.shape) for label in measured})
    text = " and ".join(f"{n} sequences of {length} tokens" for n, length in sizes)
    figure.suptitle(f"Variance of the hidden states ({text}, [CLS] left out)")
    axes = figure.subplots(1, 2, sharex=True)
    titles = {"position": "Explained by position", "token": "Explained by the token's identity"}
    for ax, (name, title) in zip(axes, titles.items()):
        for (label, shares), colour in zip(measured.items(), canvas.colours(len(measured))):
            values = getattr(shares, name)
            ax.plot(
                range(len(values)), [100 * v for v in values], "o-", color=colour,
                label=canvas.plain(label),
            )  # fmt: skip
            chance = getattr(shares, name + "_by_chance")
            ax.axhline(100 * chance, color=colour, linestyle=":", linewidth=1)
        ax.set(title=title, xlabel="after layer (0: embeddings; dotted: expected by chance)")
        ax.set_ylabel("share of the variance (%)")
        ax.set_ylim(bottom=0)
        ax.xaxis.get_major_locator().set_params(integer=True)
    axes[0].legend(fontsize="small")
    return figure
