"""The options of a checkpoint that are used, their allowed values, and their fairseq-train flags.

fairseq builds whatever the options of a file name, and passes some strings to ``eval()``. So only
the options below are used: numbers, switches, and words that are looked up in tables.
"""

import re
from dataclasses import fields
from typing import Any

from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.kinds import FORMER, FORMER_ADVICE, KINDS
from tupe_fairseq.options import LARGEST, RobertaOptions, fairseq_name, flag, violation

#: the tasks of fairseq's RoBERTa that we have heads for
TASKS = tuple(
    dict.fromkeys(
        ["masked_lm", "tupe_masked_lm", "sentence_prediction"]
        + [kind.task_name for kind in KINDS.values()]
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
         *(name for kind in KINDS.values() for name in kind.options)), bool,
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
