"""What each option of a checkpoint may be: the one place where they are checked.

fairseq builds what the options of a file name, and passes some texts to ``eval()``.  So of a
file's options only those below are used, none of them free text; all others, such as the
settings of the optimizer, are left out.
"""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tupe_fairseq.checkpoint.limits import MOST_LAYERS, WIDEST
from tupe_fairseq.checkpoint.restricted_load import CheckpointError
from tupe_fairseq.modules.pooling import POOLINGS
from tupe_fairseq.modules.tupe_encoder_layer import ACTIVATIONS
from tupe_fairseq.options import ATTENTION, POSITION_OPTIONS
from tupe_fairseq.position import CATALOGUE

#: what fairseq's RoBERTa is trained for, as far as this plugin has heads for it
TASKS = (
    "masked_lm",
    "tupe_masked_lm",
    "sentence_prediction",
    "glue_sentence_prediction",
    "token_tagging",
)
# of the heads; the encoder has fewer
_POOLER_ACTIVATIONS = ("gelu", "gelu_accurate", "gelu_fast", "linear", "relu", "tanh")


class _Allowed(NamedTuple):
    words: str
    holds: Callable[[Any], bool]


def _whole(least: int, most: int) -> _Allowed:
    return _Allowed(
        f"a whole number from {least} to {most}", lambda v: type(v) is int and least <= v <= most
    )


def _one_of(*names: str) -> _Allowed:
    return _Allowed(f"one of {', '.join(names)}", lambda v: type(v) is str and v in names)


def _named(pattern: str, words: str) -> _Allowed:
    known = re.compile(pattern, re.ASCII)
    return _Allowed(words, lambda v: type(v) is str and known.fullmatch(v) is not None)


_SWITCH = _Allowed("True or False", lambda v: type(v) is bool)
_SIZE = _whole(1, WIDEST)
_SHARE = _Allowed("a number from 0 to 1", lambda v: type(v) in (int, float) and 0 <= v <= 1)
_NUMBER = _Allowed("a number", lambda v: type(v) in (bool, int, float) and math.isfinite(v))
_TOKEN = _whole(0, 2**31 - 1)

_ALLOWED: dict[str, _Allowed] = {
    "arch": _named(r"tupe_roberta(_\w+)?", "one of tupe_roberta"),
    # sizes
    "encoder_layers": _whole(1, MOST_LAYERS),
    "encoder_embed_dim": _SIZE,
    "encoder_ffn_embed_dim": _SIZE,
    "encoder_attention_heads": _SIZE,
    "max_positions": _SIZE,
    "tokens_per_sample": _whole(1, 2**31 - 1),
    # the model
    "activation_fn": _one_of(*ACTIVATIONS),
    "pooler_activation_fn": _one_of(*_POOLER_ACTIVATIONS),
    "pooling": _one_of(*POOLINGS),
    "attn_impl": _one_of(*ATTENTION),
    "position_encoding": _one_of(*CATALOGUE),
    **{name: _SIZE if o.default is None else _SWITCH for name, o in POSITION_OPTIONS.items()},
    **dict.fromkeys(
        ("dropout", "attention_dropout", "activation_dropout", "pooler_dropout",
         "encoder_layerdrop"), _SHARE,
    ),
    **dict.fromkeys(
        ("encoder_normalize_before", "untie_weights_roberta", "unpad", "compile_layers",
         "checkpoint_activations", "offload_activations", "load_checkpoint_heads",
         "spectral_norm_classification_head"), _SWITCH,
    ),
    # RoBERTa's that do not apply: the plugin refuses every value but one
    **dict.fromkeys(
        ("adaptive_input", "ffn_blocks_to_remove", "ffn_reg_scale_factor", "layernorm_embedding",
         "mha_heads_to_keep", "mha_reg_scale_factor", "min_params_to_wrap", "no_scale_embedding",
         "no_token_positional_embeddings", "quant_noise_pq", "quant_noise_pq_block_size",
         "quant_noise_scalar"), _NUMBER,
    ),
    # the task; the criterion only says the same again
    "task": _one_of(*TASKS),
    "glue_task": _named(r"\w[\w-]{0,19}", "the name of a task"),
    "sample_break_mode": _one_of("none", "complete", "complete_doc", "eos"),
    "shorten_method": _one_of("none", "truncate", "random_crop"),
    "shorten_data_split_list": _named(r"[\w,]{0,99}", "names of splits"),
    "num_classes": _whole(-1, WIDEST),
    "init_token": _TOKEN,
    "separator_token": _TOKEN,
    "seed": _whole(0, 2**32 - 1),
    **dict.fromkeys(
        ("add_prev_output_tokens", "d2v2_multi", "freq_weighted_replacement", "mask_whole_words",
         "multilabel", "no_shuffle", "regression_target", "skip_masking"), _SWITCH,
    ),
    "classification_head_name": _named(r"\w[\w-]{0,99}", "a name of letters and digits"),
    "mask_prob": _SHARE,
    "leave_unmasked_prob": _SHARE,
    "random_token_prob": _SHARE,
}  # fmt: skip


def in_brief(value: Any) -> str:
    """A value from a file, for a message: short, whatever it is."""
    if type(value) in (bool, int, float, str):
        is_word = type(value) is str and re.fullmatch(r"(?!\d)\w+", value, re.ASCII)
        text = value if is_word else repr(value)
        return text if len(text) <= 80 else text[:77] + "..."
    return f"a {type(value).__name__}"


def checked_options(given: dict[str, Any], path: str) -> dict[str, Any]:
    """Those of a tupe_roberta checkpoint's options that are used, each of its type and range.

    Args:
        given (dict): all options of the file.
        path (str): its name, for messages.
    Raises:
        CheckpointError: if it is of another architecture, or an option is not what it may be.
    """
    arch = given.get("arch")
    if not _ALLOWED["arch"].holds(arch):
        raise CheckpointError(
            f"{path} is a checkpoint of {in_brief(arch)}, not of tupe_roberta; convert stock "
            "RoBERTa's or the TUPE authors' with tupe-convert"
        )
    # None is an option that was not given
    options = {name: given[name] for name in _ALLOWED if given.get(name) is not None}
    for name, value in options.items():
        if not _ALLOWED[name].holds(value):
            raise CheckpointError(
                f"{path} is refused: its option {name} is {in_brief(value)}, which must be "
                f"{_ALLOWED[name].words}"
            )
    return options
