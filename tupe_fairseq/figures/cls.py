"""cls.png: the bias to and from [CLS], and the attention that [CLS] gets and gives."""

from typing import NamedTuple

import torch
from torch import Tensor

from tupe_fairseq.figures import canvas, position_bias
from tupe_fairseq.figures.plot_input import NotApplicable, PlotInput


class ClsBias(NamedTuple):
    """The two values (H) of the untied [CLS], and the bias (H, (T - 1)^2) between the others."""

    cls_to_other: Tensor
    other_to_cls: Tensor
    others: Tensor


class ClsAttention(NamedTuple):
    """Mean attention (layers, H) that [CLS] gets from the others, and that it gives to itself."""

    received: Tensor
    kept: Tensor
    uniform: float  # 1 / T, what every token would get from uniform attention


class Cls(NamedTuple):
    """Both; None for what does not apply."""

    bias: ClsBias | None
    attention: ClsAttention | None


def measure_bias(plot_input: PlotInput) -> ClsBias:
    position = plot_input.encoder.position
    if position is None or not position.unties_cls:
        raise NotApplicable("[CLS] is an ordinary position of this model, without its own bias")
    position_bias.need_two_positions(plot_input)
    *_, total = position_bias.measure(plot_input).values()
    return ClsBias(total[:, 0, 1], total[:, 1, 0], total[:, 1:, 1:].flatten(1))


def attention_of_cls(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean attention of the others to [CLS], and of [CLS] to itself.

    Shape: (N, H, T, T), rows are queries -> (H), (H).
    """
    return weights[:, :, 1:, 0].mean((0, 2)), weights[:, :, 0, 0].mean(0)


@torch.no_grad()
def measure_attention(plot_input: PlotInput) -> ClsAttention:
    plot_input.need_text()
    total = torch.zeros(())
    for words in plot_input.words.split(16):  # a few at a time, to bound memory
        weights = plot_input.encoder.attention_weights(words)
        means = [torch.stack(attention_of_cls(w[:, plot_input.heads])) for w in weights]
        total = total + torch.stack(means).double() * len(words)
    received, kept = (total / len(plot_input.words)).unbind(1)
    return ClsAttention(received, kept, 1 / plot_input.words.size(1))


def measure(plot_input: PlotInput) -> Cls:
    parts, reasons = [], []
    for part in (measure_bias, measure_attention):
        try:
            parts.append(part(plot_input))
        except NotApplicable as reason:
            parts.append(None)
            reasons.append(str(reason))
    if len(reasons) == 2:
        raise NotApplicable("; ".join(reasons))
    return Cls(*parts)


def draw(measured: dict[str, Cls], inputs: dict[str, PlotInput]):
    """Left: the bias of each model by head. Right: the attention of all models by layer."""
    biases = {name: one.bias for name, one in measured.items() if one.bias}
    attentions = {name: one.attention for name, one in measured.items() if one.attention}
    widest = max([len(inputs[name].heads) for name in biases], default=0)
    widths = [max(0.45 * widest + 2.5, 5.5) if biases else 0, 5.5 if attentions else 0]
    figure = canvas.new_figure(sum(widths), max(3.2 * len(biases), 5.4) + 0.8)
    figure.suptitle("Bias and attention of [CLS]")
    widths = [width for width in widths if width]
    parts = list(figure.subfigures(1, len(widths), width_ratios=widths, squeeze=False)[0])
    if biases:
        part = parts.pop(0)
        axes = part.subplots(len(biases), 1, squeeze=False)[:, 0]
        for ax, (name, bias) in zip(axes, biases.items()):
            _draw_bias(ax, bias, inputs[name].heads)
            ax.set_title(canvas.plain(name), fontsize="medium")
        part.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", frameon=False)
    if attentions:
        axes = parts[0].subplots(2, 1, sharex=True)
        _draw_attention(axes, attentions)
        handles, names = axes[0].get_legend_handles_labels()
        parts[0].legend(handles, names, loc="outside lower center", ncol=2, frameon=False)
    return figure


def _draw_bias(ax, bias: ClsBias, heads: list[int]) -> None:
    places, grey = range(len(heads)), {"color": "0.5"}
    ax.boxplot(
        list(bias.others.numpy()), positions=list(places), whis=(0, 100), widths=0.5,
        medianprops={"color": "black"}, boxprops=grey, whiskerprops=grey, capprops=grey,
    )  # fmt: skip
    ax.plot([], [], **grey, label="between the others: range, quartiles, median")
    ax.plot(
        places, bias.other_to_cls, "o", color=canvas.COLOURS[1], label="from the others to [CLS]"
    )
    ax.plot(
        places, bias.cls_to_other, "x", color=canvas.COLOURS[0],
        label="from [CLS] to the others (equal for all keys: no effect)",
    )  # fmt: skip
    ax.set_xticks(list(places), map(str, heads))
    ax.set(xlabel="head", ylabel="bias (logit)")


def _draw_attention(axes, attentions: dict[str, ClsAttention]) -> None:
    titles = ("Attention that [CLS] gets from the others", "Attention that [CLS] gives to itself")
    for ax, key, title in zip(axes, ("received", "kept"), titles):
        for (name, attention), colour in zip(attentions.items(), canvas.colours(len(attentions))):
            values = getattr(attention, key)
            layers, low, high = range(len(values)), values.amin(1), values.amax(1)
            ax.plot(layers, values.mean(1), "o-", color=colour, label=canvas.plain(name))
            ax.fill_between(layers, low, high, color=colour, alpha=0.15, linewidth=0)
            ax.axhline(attention.uniform, color=colour, linestyle=":", linewidth=1)
        ax.set_title(title, fontsize="medium")
        ax.set_ylabel("mean probability")
        canvas.from_zero(ax)
    axes[1].set_xlabel("layer (line: mean of heads; shaded: their range; dotted: uniform)")
    axes[1].xaxis.get_major_locator().set_params(integer=True)
