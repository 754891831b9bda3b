"""cls.png: the bias to and from [CLS], and the attention that [CLS] gets and gives."""

from typing import NamedTuple

import torch
from torch import Tensor

from tupe_fairseq.plots.figures import position_bias
from tupe_fairseq.plots.subject import NoMeaning, Subject


class ClsBias(NamedTuple):
    """The two values of the untied [CLS], and the bias between the other positions.

    Shape:
        cls_to_other, other_to_cls (H); others (H, (T - 1)^2).
    """

    cls_to_other: Tensor
    other_to_cls: Tensor
    others: Tensor


class ClsAttention(NamedTuple):
    """Mean attention over the text, of each layer and head.

    Args:
        received (Tensor): what the other tokens give to [CLS].
        kept (Tensor): what [CLS] gives to itself; the rest of 1 goes to the other tokens.
        uniform (float): 1 / T, what every token would get from uniform attention.
    Shape:
        (layers, H) each.
    """

    received: Tensor
    kept: Tensor
    uniform: float


class ClsReport(NamedTuple):
    """The values; None for what does not apply, and why."""

    bias: ClsBias | None
    attention: ClsAttention | None
    left_out: str


def _bias(subject: Subject) -> ClsBias:
    position = subject.encoder.position
    if position is None or not position.unties_cls:
        raise NoMeaning("[CLS] is an ordinary position of this model, so it has no bias of its own")
    if subject.length < 3:
        raise NoMeaning(
            f"--length ({subject.length}) is too short: the figure needs two positions "
            "in addition to [CLS]"
        )
    *_, total = position_bias.measure(subject).values()
    return ClsBias(total[:, 0, 1], total[:, 1, 0], total[:, 1:, 1:].flatten(1))


def attention_of_cls(weights: Tensor) -> "tuple[Tensor, Tensor]":
    """Mean attention of the others to [CLS], and of [CLS] to itself.

    Shape:
        (N, H, T, T), rows are queries -> (H), (H).
    """
    return weights[:, :, 1:, 0].mean((0, 2)), weights[:, :, 0, 0].mean(0)


@torch.no_grad()
def _attention(subject: Subject) -> ClsAttention:
    if subject.words is None:
        raise NoMeaning("there is no text to compute the attention of [CLS] on; give --sentences")
    sums, heads = 0, list(subject.heads)
    for words in subject.words.split(16):  # a few at a time, to bound memory
        weights = subject.encoder.attention_weights(words)
        means = [torch.stack(attention_of_cls(w[:, heads])) for w in weights]
        sums = sums + torch.stack(means).double() * len(words)
    received, kept = (sums / len(subject.words)).unbind(1)
    return ClsAttention(received, kept, 1 / subject.words.size(1))


def measure(subject: Subject) -> ClsReport:
    """Both parts, as far as they apply.

    Raises:
        NoMeaning: if neither does.
    """
    parts, reasons = [], []
    for part in (_bias, _attention):
        try:
            parts.append(part(subject))
        except NoMeaning as reason:
            parts.append(None)
            reasons.append(str(reason))
    if parts == [None, None]:
        raise NoMeaning("; ".join(reasons))
    return ClsReport(*parts, "; ".join(reasons))


def draw(measured: dict[str, ClsReport], subjects: dict[str, Subject]):
    """Left: the bias of each model by head. Right: the attention of all models by layer."""
    from tupe_fairseq.plots import canvas

    biases = {label: report.bias for label, report in measured.items() if report.bias is not None}
    attentions = {label: r.attention for label, r in measured.items() if r.attention is not None}
    widest = max([len(subjects[label].heads) for label in biases], default=0)
    width = max(0.45 * widest + 2.5, 5.5) if biases else 0
    figure = canvas.new_figure(width + (5 if attentions else 0), max(3.2 * len(biases), 5.4) + 0.4)
    figure.suptitle("Bias and attention of [CLS]")
    ratios = [size for size in (width, 5 if attentions else 0) if size]
    parts = list(figure.subfigures(1, len(ratios), width_ratios=ratios, squeeze=False)[0])
    if biases:
        axes = parts.pop(0).subplots(len(biases), 1, squeeze=False)[:, 0]
        for ax, (label, bias) in zip(axes, biases.items()):
            _draw_bias(ax, bias, subjects[label].heads, canvas.plain(label))
    if attentions:
        _draw_attention(parts[0].subplots(2, 1, sharex=True), attentions, canvas)
    return figure


def _draw_bias(ax, bias: ClsBias, heads, label: str) -> None:
    places = range(len(heads))
    ax.boxplot(
        list(bias.others.numpy()), positions=list(places), whis=(0, 100), widths=0.5,
        medianprops={"color": "black"}, boxprops={"color": "0.5"}, whiskerprops={"color": "0.5"},
        capprops={"color": "0.5"},
    )  # fmt: skip
    ax.plot([], [], color="0.5", label="between the others: range, quartiles, median")
    ax.plot(places, bias.other_to_cls, "o", color="#D55E00", label="other_to_cls")
    ax.plot(
        places, bias.cls_to_other, "x", color="#0072B2",
        label="cls_to_other (the same for all keys: no effect)",
    )  # fmt: skip
    ax.set_xticks(list(places))
    ax.set_xticklabels([str(head) for head in heads])
    ax.set(title=label, xlabel="head", ylabel="bias (logit)")
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.35 * (high - low))  # room for the legend
    ax.legend(fontsize="x-small", loc="upper left")


def _draw_attention(axes, attentions: dict[str, ClsAttention], canvas) -> None:
    titles = ("Attention that [CLS] gets from the others", "Attention that [CLS] keeps to itself")
    for ax, name, title in zip(axes, ("received", "kept"), titles):
        for (label, attention), colour in zip(attentions.items(), canvas.colours(len(attentions))):
            values = getattr(attention, name)
            layers = range(1, len(values) + 1)
            ax.plot(layers, values.mean(1), "o-", color=colour, label=canvas.plain(label))
            ax.fill_between(
                layers, values.amin(1), values.amax(1), color=colour, alpha=0.15, linewidth=0
            )
            ax.axhline(attention.uniform, color=colour, linestyle=":", linewidth=1)
        ax.set_title(title, fontsize="medium")
        ax.set_ylabel("mean probability")
        ax.set_ylim(bottom=0)
    axes[0].legend(fontsize="x-small")
    axes[1].set_xlabel("layer\n(line: mean of heads; shaded: their range; dotted: uniform)")
    axes[1].xaxis.get_major_locator().set_params(integer=True)
