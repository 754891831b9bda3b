"""Makes TUPE-A of a model with learned positions: ``tupe-convert --untie``."""

import argparse
from typing import NamedTuple

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.checkpoint.fit_bias import fit_bias, fitted_scores
from tupe_fairseq.checkpoint.position_scores import centred, layer_inputs, position_scores
from tupe_fairseq.checkpoint.state_dict import EMBEDDING, ENCODER
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.options import POSITION_OPTIONS, TupeConfig

_FEWEST = 3
_CLS, _PADDING = 0, 1  # fairseq's <s> and <pad>
_HEAD = "encoder.lm_head.weight"

#: How much of the position scores the bias is fitted to.  Measured with one model of three layers,
#: of which the first had nearly all: half cost 0.05 bits at the start, and after 1,200 updates was
#: 0.04 bits better, since the whole nearly fixes where the other layers look.
SOFTENED = 0.5


class LayerReport(NamedTuple):
    """How well the shared bias stands for what positions did in a layer.

    Args:
        spread (float): standard deviation of the layer's position scores, each row by itself.
        explained (float): the share of their variance that the bias has; below 0 if without any
            bias the layer would be closer to what it was.
    """

    spread: float
    explained: float


def check_untied(options: argparse.Namespace) -> None:
    """Refuse the options of a model that :func:`untie` does not understand.

    Raises:
        CheckpointError: if it is anything but post-LN with plain learned positions.
    """
    scheme = options.position_encoding
    given = [name for name in POSITION_OPTIONS if getattr(options, name, None)]
    if scheme != "learned" or given:
        what = " ".join([scheme, *("--" + name.replace("_", "-") for name in given)])
        raise CheckpointError(
            f"--untie starts from learned positions without further options, and this is {what}"
        )
    if options.encoder_normalize_before:
        raise CheckpointError("--untie is for post-LN, and this has --encoder-normalize-before")
    if options.max_positions < _FEWEST:
        raise CheckpointError(
            f"--untie needs {_FEWEST} positions, and this has {options.max_positions}"
        )


def untie(
    model: dict[str, Tensor], options: argparse.Namespace
) -> tuple[dict[str, Tensor], argparse.Namespace, list[LayerReport]]:
    """The TUPE-A that is nearest to a model with learned positions.

    The words get the mean position vector, ``<s>`` that of its position; queries and keys are
    scaled for TUPE's 1 / sqrt(2 d); the bias, one for all layers, is fitted to half (``SOFTENED``)
    the mean of what positions add to the scores of each, a head of a layer weighing as much as its
    scores vary.
    What positions add to the values is lost, so continued training must follow.

    Args:
        model (dict): the state dict of tupe_roberta, float32; it is not changed.
        options (Namespace): its options, which are not changed either.
    Returns:
        tuple: state dict, options, and a report of each layer.
    Raises:
        CheckpointError: if it is not post-LN with plain learned positions.
    """
    check_untied(options)
    old = TupeEncoder(TupeConfig.from_roberta_options(options)).eval()
    old.load_state_dict(
        {name[len(ENCODER) :]: tensor.clone() for name, tensor in model.items()
         if name.startswith(ENCODER) and name != EMBEDDING}
    )  # fmt: skip
    still, inputs = layer_inputs(old, model[EMBEDDING])
    scores = [position_scores(old, layer, given) for layer, given in enumerate(inputs)]
    weights = torch.stack([centred(one).pow(2).mean((1, 2)) for one in scores])
    shares = weights / weights.sum(0).clamp_min(torch.finfo(weights.dtype).tiny)
    mean = sum(share[:, None, None] * one for share, one in zip(shares, scores))
    bias = fit_bias(SOFTENED * mean, options.encoder_embed_dim)

    new_options = argparse.Namespace(**{**vars(options), "position_encoding": "tupe"})
    new = {**model, **_untied_words(model)}
    del new[f"{ENCODER}position_bias.pos.weight"]
    for name, tensor in still.layernorm_embedding.state_dict().items():
        new[f"{ENCODER}layernorm_embedding.{name}"] = tensor
    for name, tensor in bias.state_dict().items():
        new[f"{ENCODER}position_bias.untied_absolute.{name}"] = tensor
    record = TupeEncoder(TupeConfig.from_roberta_options(new_options)).position_version
    new[f"{ENCODER}position_version"] = record
    new = {name: tensor.detach().clone() for name, tensor in new.items()}
    if not options.untie_weights_roberta:
        new[_HEAD] = new[EMBEDDING]
    return new, new_options, _reports(scores, fitted_scores(bias).detach())


def _untied_words(model: dict[str, Tensor]) -> dict[str, Tensor]:
    """The word embedding with positions in it, and the rescaled queries and keys."""
    words, table = model[EMBEDDING].clone(), model[f"{ENCODER}position_bias.pos.weight"]
    padding, cls = words[_PADDING].clone(), words[_CLS] + table[0]
    words += table[1:].mean(0)
    words[_CLS], words[_PADDING] = cls, padding
    changed = {EMBEDDING: words}
    for name, tensor in model.items():
        if name.startswith(ENCODER) and ".self_attn.in_proj_" in name:
            tensor = tensor.clone()
            tensor[: len(tensor) // 3 * 2] *= 2**0.25  # once in the queries, once in the keys
            changed[name] = tensor
    return changed


def _reports(scores: list[Tensor], bias: Tensor) -> list[LayerReport]:
    reports = []
    for one in scores:
        whole = centred(one).pow(2).mean()
        left = centred(bias - one).pow(2).mean()
        explained = 1 - left / whole if whole > 0 else whole
        reports.append(LayerReport(float(whole.sqrt()), float(explained)))
    return reports


def in_words(reports: list[LayerReport]) -> list[str]:
    """What the reports say, a line a layer, and what must follow."""
    lines = [
        f"layer {number}: positions moved the scores by {one.spread:.3g} (standard deviation); the "
        "bias that all layers now share has "
        f"{f'{100 * one.explained:.1f} %' if one.explained > 0 else 'nothing'} of that variance"
        for number, one in enumerate(reports)
    ]
    return [
        *lines,
        "TUPE-A, NOT YET AS GOOD AS WHAT IT WAS MADE OF: train it on before you use it, since "
        "positions no longer reach the values, and all layers share one bias",
    ]
