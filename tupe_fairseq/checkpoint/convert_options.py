"""The options of tupe_roberta that the options of a foreign checkpoint become."""

import argparse
from typing import Any

from tupe_fairseq.checkpoint.allowed_options import checked_options, in_brief
from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.options import POSITION_OPTIONS

#: Options that shape the model, each with its default there; the names are fairseq's.
MODEL_DEFAULTS = {
    "encoder_layers": 12,
    "encoder_embed_dim": 768,
    "encoder_ffn_embed_dim": 3072,
    "encoder_attention_heads": 12,
    "encoder_normalize_before": False,
    "encoder_layerdrop": 0.0,
    "activation_fn": "gelu",
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "activation_dropout": 0.0,
    "pooler_activation_fn": "tanh",
}


def tupe_roberta_options(
    given: dict[str, Any],
    fixed: dict[str, Any],
    defaults: dict[str, Any],
    position: dict[str, Any],
) -> argparse.Namespace:
    """The options of the tupe_roberta checkpoint that is equal to the given model.

    Args:
        given (dict): the options of the foreign model.
        fixed (dict): options of another model, each with the only value allowed.
        defaults (dict): further options to keep, each with its default there.
        position (dict): ours, for the position encoding.
    Raises:
        CheckpointError: if one of ``fixed`` has another value, or an option of the encoder is
            unknown, all named; or if one is not of its type or range.
    """
    defaults = {**MODEL_DEFAULTS, **defaults}
    wrong = [
        f"{name}={in_brief(value)}"
        for name, value in given.items()
        if (name in fixed and value != fixed[name])
        or (name.startswith("encoder_") and name not in {**defaults, **fixed})
    ]
    if wrong:
        raise CheckpointError(f"options unknown to tupe_roberta: {', '.join(sorted(wrong))}")

    ours = {name: given.get(name, default) for name, default in defaults.items()}
    # the length of the table; a Hydra run of fairseq 0.12.2 leaves max_positions empty
    lengths = (given.get(f"max_{kind}positions") for kind in ("", "source_"))
    ours["max_positions"] = next(filter(None, lengths), given.get("tokens_per_sample") or 512)
    switches = {name: False for name, option in POSITION_OPTIONS.items() if option.default is False}
    options = {
        "arch": "tupe_roberta",
        "task": "masked_lm",
        "tokens_per_sample": ours["max_positions"],
        "attn_impl": "auto",
        "unpad": False,
        "compile_layers": False,
        **ours,
        **switches,
        **position,
    }
    options = checked_options(options, "the checkpoint")
    return argparse.Namespace(**options, criterion="masked_lm", data=".")
