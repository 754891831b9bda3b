"""The flags that tupe_roberta adds to RoBERTa's, and checks of all options."""

import argparse
import difflib

from fairseq.data import Dictionary
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.utils import safe_getattr
from omegaconf import OmegaConf

from tupe_fairseq.attention import NAMES
from tupe_fairseq.files.names import CLS
from tupe_fairseq.modules.activations import ACTIVATIONS
from tupe_fairseq.modules.pooling import POOLINGS, get_pooling
from tupe_fairseq.position import CATALOGUE, POSITION_OPTIONS

# RoBERTa options that do not apply here, each with the only value allowed.
FIXED_OPTIONS = {
    "adaptive_input": False,
    "ffn_blocks_to_remove": -1,
    "ffn_reg_scale_factor": 0,
    "layernorm_embedding": True,
    "mha_heads_to_keep": -1,
    "mha_reg_scale_factor": 0,
    "no_scale_embedding": True,
    "no_token_positional_embeddings": True,
    "quant_noise_pq": 0,
    "quant_noise_scalar": 0,
}


def add_tupe_args(parser) -> None:
    """Add the flags; none has a default here, because the architecture's preset fills them."""
    parser.add_argument(
        "--position-encoding",
        choices=list(CATALOGUE),
        help="the position encoding, see examples/positions; default tupe",
    )
    for option in POSITION_OPTIONS.values():
        kind = {"type": int, "metavar": "N"} if option.is_number else {"action": "store_true"}
        parser.add_argument(option.flag, help=option.help, **kind)
    parser.add_argument(
        "--pooling",
        choices=list(POOLINGS),
        help="what a classification head gets of a text: cls, the features of <s>, or mean, the "
        "mean of those of all its tokens, <s> and </s> among them; mean is refused without such a "
        "head; default cls",
    )
    parser.add_argument(
        "--attn-impl",
        choices=NAMES,
        help="implementation of attention, all equal within rounding: auto picks the fastest "
        "that supports the device, dtype and mode, and logs the choice; eager is the plain "
        "reference; naming one that does not support them is an error; default auto",
    )
    parser.add_argument(
        "--unpad",
        action="store_true",
        help="leave padding out of all layers and the LM head: faster for batches of sentences "
        "of different length; hidden states are zero at padding",
    )
    parser.add_argument(
        "--isolate-documents",
        action="store_true",
        help="pre-training with masked_lm: keep the documents within a sample apart, each with "
        "positions and a <s> of its own, without a mask; an empty line of the text separates them; "
        "needs --sample-break-mode none or complete",
    )
    parser.add_argument(
        "--compile-layers",
        action="store_true",
        help="torch.compile each layer (needs torch 2.2 or later and a compiler): slower "
        "to start, faster on a GPU; changes rounding and the random numbers of dropout",
    )
    parser.add_argument(
        "--checkpoint-activations",
        action="store_true",
        help="keep only each layer's input and recompute the rest in the backward "
        "pass: less memory, more time",
    )
    parser.add_argument(
        "--offload-activations",
        action="store_true",
        help="as --checkpoint-activations, with those inputs in CPU memory",
    )


def check_hydra_keys(args, known: argparse.Namespace) -> None:
    """Refuse model keys that nothing reads; Hydra itself lets any key through.

    Args:
        args (DictConfig): the model's config.
        known (Namespace): the attributes that the flags and the preset of the architecture set.
    Raises:
        ValueError: if there is another key; the message names the nearest known one.
    """
    names = {*vars(known), "_name", "max_positions", "tokens_per_sample"}
    for name in args:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(names))}"
            raise ValueError(f"unknown key model.{name} for {args._name}; {hint}")


def task_options(task):
    """A task's own options: a config in fairseq's newer tasks, parsed flags in older ones."""
    return getattr(task, "cfg", None) or getattr(task, "args", None) or argparse.Namespace()


def check_options(args, task) -> None:
    """Refuse options that would be ignored, or would silently mean something else.

    Args:
        args (Namespace or DictConfig): the model's options, presets applied.
        task (FairseqTask): the task that the model is built for.
    Raises:
        ValueError: if an option of ``FIXED_OPTIONS`` has another value.
        ValueError: if activation function or pooling is not one of ours.
        ValueError: if the model has no head whose pooling could be another.
        ValueError: if the task makes samples longer than ``max_positions``.
        ValueError: if the task could put ``<s>`` first and does not.
    """
    for name, only in FIXED_OPTIONS.items():
        value = safe_getattr(args, name, only)
        if value != only:
            raise ValueError(
                f"--{name.replace('_', '-')} ({value}) does not apply to tupe_roberta; "
                f"only {only} is allowed: drop it"
            )
    if args.activation_fn not in ACTIVATIONS:
        raise ValueError(
            f"--activation-fn ({args.activation_fn}) is not available for tupe_roberta; "
            f"use one of {', '.join(sorted(ACTIVATIONS))}"
        )
    get_pooling(args.pooling)
    # of a checkpoint that is read for something else the heads are loaded, too
    if args.pooling != CLS and isinstance(task, MaskedLMTask) and not args.load_checkpoint_heads:
        raise ValueError(
            f"--pooling {args.pooling} is for classification heads, and masked_lm has none; give "
            "it in fine-tuning"
        )
    options = task_options(task)
    tokens_per_sample = safe_getattr(options, "tokens_per_sample") or 0
    if tokens_per_sample > args.max_positions:
        raise ValueError(
            f"--tokens-per-sample ({tokens_per_sample}) exceeds --max-positions "
            f"({args.max_positions}); lower the first or raise the second"
        )
    bos = Dictionary().bos()
    has_init_token = "init_token" in (options if OmegaConf.is_config(options) else vars(options))
    if has_init_token and options.init_token != bos:
        raise ValueError(
            f"--init-token is {options.init_token}: sentences would not begin with <s>, and "
            f"position 0 would not be [CLS]; pass --init-token {bos} (and --separator-token 2)"
        )
