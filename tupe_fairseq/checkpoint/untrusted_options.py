"""The options of a checkpoint that are used, their allowed values, and their fairseq-train flags.

fairseq builds whatever the options of a file name, and passes some strings to ``eval()``. So only
the options below are used: numbers, switches, and words that are looked up in tables. Those of
other code become the options of the tupe_roberta that equals the model.
"""

import re
from dataclasses import fields
from types import ModuleType
from typing import Any

from tupe_fairseq.checkpoint import from_authors, from_roberta
from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.kinds import FORMER, FORMER_ADVICE, KINDS
from tupe_fairseq.options import (
    ARCHITECTURES,
    LARGEST,
    RobertaOptions,
    fairseq_name,
    flag,
    other_values,
    violation,
)

#: the tasks of fairseq's RoBERTa that we have heads for
TASKS = tuple(
    dict.fromkeys(
        ["masked_lm", "tupe_masked_lm", "sentence_prediction"]
        + [kind.fairseq_task for kind in KINDS.values()]
    )
)
#: how a model is trained or computed: a checkpoint does not decide this
_OF_THE_RUN = ("attn_impl", "isolate_documents", "checkpoint_activations")
_OF_MODEL = {fairseq_name(x.name): x for x in fields(RobertaOptions) if x.name not in _OF_THE_RUN}
#: name -> what is allowed, see ``violation``
_ALLOWED: dict[str, Any] = {
    "arch": str,
    **{name: option.metadata["allowed"] for name, option in _OF_MODEL.items()},
    **dict.fromkeys(("mask_prob", "leave_unmasked_prob", "random_token_prob"), float),
    **dict.fromkeys(
        ("add_prev_output_tokens", "freq_weighted_replacement", "mask_whole_words", "no_shuffle",
         *(name for kind in KINDS.values() for name in kind.switches)), bool,
    ),
    "task": TASKS,
    **dict.fromkeys(("classification_head_name", "glue_task", "kind"), str),
    "shorten_data_split_list": str,
    "sample_break_mode": ("none", "complete", "complete_doc", "eos"),
    "shorten_method": ("none", "truncate", "random_crop"),
    "num_classes": range(-1, LARGEST + 1),
    **dict.fromkeys(("tokens_per_sample", "init_token", "separator_token"), range(2**31)),
    "seed": range(2**32),
}  # fmt: skip
# options that a checkpoint of this project must have: the sizes
_NEEDED = tuple(name for name, option in _OF_MODEL.items() if option.type is int)
#: options that a file may leave out
DEFAULTS = {
    name: option.default
    for name, option in _OF_MODEL.items()
    if name not in _NEEDED and option.default is not None
}


def in_brief(value: Any) -> str:
    """A short form of any value from a file, for messages."""
    if type(value) in (bool, int, float, str):
        is_word = type(value) is str and re.fullmatch(r"(?!\d)\w+", value, re.ASCII)
        text = value if is_word else repr(value)
        return text if len(text) <= 80 else text[:77] + "..."
    return f"a {type(value).__name__}"


def checked_options(options: dict[str, Any], path: str) -> dict[str, Any]:
    """The options of a tupe_roberta checkpoint that are used, complete, with checked values."""
    arch = options.get("arch")
    if type(arch) is not str or not re.fullmatch(r"tupe_roberta(_\w+)?", arch, re.ASCII):
        raise CheckpointError(
            f"{path} is a checkpoint of {in_brief(arch)}, not of tupe_roberta; tupe-convert "
            "converts checkpoints of stock RoBERTa and of the TUPE authors"
        )
    if options.get("task") in FORMER:
        raise CheckpointError(f"{path} was trained for {options['task']}: {FORMER_ADVICE}")
    # None means that an option was not given
    used = {name: options[name] for name in _ALLOWED if options.get(name) is not None}
    for name, value in used.items():
        words = violation(value, _ALLOWED[name])
        if words:
            raise CheckpointError(
                f"{path} is refused: its option {name} is {in_brief(value)}, which must be {words}"
            )
    missing = [name for name in _NEEDED if name not in used]
    if missing:
        raise CheckpointError(f"{path} is refused: it has no option {', '.join(missing)}")
    task = used.get("task", "masked_lm")
    more = {
        "task": task,
        "tokens_per_sample": used["max_positions"],
        "regression_target": False,  # fairseq takes a missing one for True
        "criterion": "masked_lm" if task == "tupe_masked_lm" else task,
        "data": ".",
    }
    return {**DEFAULTS, **more, **used}


def source_of(arch: Any) -> ModuleType | None:
    """The module that knows a checkpoint's names, or None."""
    arch = arch if isinstance(arch, str) else ""
    if arch.startswith("bert"):
        return from_authors
    # in stock fairseq, xlm is a size of RoBERTa
    return from_roberta if arch.startswith("roberta") or arch == "xlm" else None


def options_of(saved: dict[str, Any], source: ModuleType, path: str) -> dict[str, Any]:
    """The options of the tupe_roberta that equals a model of the TUPE authors or of RoBERTa."""
    layers, width, heads = ARCHITECTURES["tupe_roberta_base"]  # RoBERTa's, which a file may omit
    sizes = {"num_layers": layers, "embed_dim": width, "num_heads": heads}
    sizes["ffn_embed_dim"] = 4 * width
    defaults = {fairseq_name(name): size for name, size in sizes.items()}
    defaults = {**defaults, **DEFAULTS, **source.DEFAULTS}
    saved = {**saved, "encoder_layerdrop": 0.0}  # only matters in training
    known = {*defaults, *source.FIXED}
    unknown = {x: y for x, y in saved.items() if x.startswith("encoder_") and x not in known}
    if wrong := {**unknown, **other_values(saved, source.FIXED)}:
        words = ", ".join(f"{name}={in_brief(wrong[name])}" for name in sorted(wrong))
        raise CheckpointError(f"options unknown to tupe_roberta: {words}")
    # the length of the table; a Hydra run of fairseq 0.12.2 leaves max_positions empty
    lengths = (saved.get(f"max_{kind}positions") for kind in ("", "source_"))
    length = next(filter(None, lengths), saved.get("tokens_per_sample") or 512)
    options = {name: saved.get(name, default) for name, default in defaults.items()}
    positions = source.position_options(saved)
    options |= {"arch": "tupe_roberta", "task": "masked_lm", "max_positions": length}
    options["classification_head_name"] = saved.get("classification_head_name")
    return checked_options({**options, "tokens_per_sample": length, **positions}, path)


def training_flags(options: dict[str, Any]) -> tuple[str, ...]:
    """The flags of fairseq-train for a model."""
    # dropout may differ, and pre-training has no pooling
    names = (name for name, x in _OF_MODEL.items() if x.type is not float and name != "pooling")
    return tuple(
        # one argument, so that a value can never be read as another flag
        flag(name) if options[name] is True else f"{flag(name)}={options[name]}"
        for name in ("arch", *names)
        if options.get(name)
    )
