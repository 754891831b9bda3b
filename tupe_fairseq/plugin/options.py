"""The flags of tupe_roberta beside RoBERTa's, and which combinations are refused."""

import argparse
import difflib

from fairseq.data import Dictionary
from fairseq.utils import safe_getattr
from omegaconf import OmegaConf

from tupe_fairseq.attention import NAMES
from tupe_fairseq.modules.activations import ACTIVATIONS
from tupe_fairseq.position import CATALOGUE

# RoBERTa options without a meaning here, each with the only value it may have.
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
        help="how the model knows where tokens stand, see examples/positions; default tupe",
    )
    parser.add_argument(
        "--rel-pos",
        action="store_true",
        help="add the relative position bias: with tupe TUPE-R, Eq. (11), instead of TUPE-A, "
        "Eq. (10); with learned BERT-R, with none T5's; for tupe, learned, sinusoidal, none and "
        "disentangled",
    )
    parser.add_argument(
        "--rel-pos-buckets",
        type=int,
        metavar="N",
        help="number of relative-position buckets over both directions, even and at least 4; "
        "read with --rel-pos only; default 32",
    )
    parser.add_argument(
        "--max-rel-pos",
        type=int,
        metavar="N",
        help="distance in tokens from which on all share the last bucket of their direction, "
        "above a quarter of the buckets; read with --rel-pos (default 128) and by shaw (default "
        "16) only",
    )
    parser.add_argument(
        "--tie-cls",
        action="store_true",
        help="leave [CLS] an ordinary position instead of untying it, Eq. (9) (an ablation); read "
        "by tupe, which unties it otherwise",
    )
    parser.add_argument(
        "--untie-cls",
        action="store_true",
        help="give [CLS] position scores of its own, Eq. (9); read by alibi, and with --rel-pos by "
        "learned, sinusoidal, none and disentangled, which do not otherwise",
    )
    parser.add_argument(
        "--symmetric-basis",
        action="store_true",
        help="basis functions of the distance without its sign; read by enformer only",
    )
    parser.add_argument(
        "--position-each-layer",
        action="store_true",
        help="add the position vectors of the input again before every further layer; read by "
        "learned and sinusoidal",
    )
    parser.add_argument(
        "--attn-impl",
        choices=NAMES,
        help="how attention is computed, the same numbers within rounding: auto takes the fastest "
        "that can serve device, dtype and mode, and logs which; eager is the plain reference; a "
        "named one stops the run where it cannot serve; default auto",
    )
    parser.add_argument(
        "--unpad",
        action="store_true",
        help="leave padding out of all layers and the LM head: faster for batches of sentences "
        "of different length; hidden states are zero at padding",
    )
    parser.add_argument(
        "--compile-layers",
        action="store_true",
        help="torch.compile each layer (needs torch 2.2 or later and a compiler): longer to "
        "start, faster on a GPU; changes rounding and the random numbers of dropout",
    )
    parser.add_argument(
        "--checkpoint-activations",
        action="store_true",
        help="keep only the input of each layer and compute the rest again in the backward pass: "
        "less memory, more time",
    )
    parser.add_argument(
        "--offload-activations",
        action="store_true",
        help="as --checkpoint-activations, and keep those inputs in CPU memory",
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
    """A task's own options: a config in fairseq's newer tasks, parsed flags in its older ones."""
    return getattr(task, "cfg", None) or getattr(task, "args", None) or argparse.Namespace()


def check_options(args, task) -> None:
    """Refuse what would be accepted and then ignored, or silently be something else.

    Args:
        args (Namespace or DictConfig): the model's options, presets applied.
        task (FairseqTask): the task that the model is built for.
    Raises:
        ValueError: if an option of ``FIXED_OPTIONS`` has another value.
        ValueError: if the activation function is not one of ours.
        ValueError: if the task makes samples longer than ``max_positions``.
        ValueError: if the task could put ``<s>`` first and does not.
    """
    for name, only in FIXED_OPTIONS.items():
        value = safe_getattr(args, name, only)
        if value != only:
            raise ValueError(
                f"--{name.replace('_', '-')} ({value}) has no meaning for tupe_roberta; "
                f"only {only} is allowed: drop it"
            )
    if args.activation_fn not in ACTIVATIONS:
        raise ValueError(
            f"--activation-fn ({args.activation_fn}) is not available for tupe_roberta; "
            f"use one of {', '.join(sorted(ACTIVATIONS))}"
        )
    options = task_options(task)
    tokens_per_sample = safe_getattr(options, "tokens_per_sample") or 0
    if tokens_per_sample > args.max_positions:
        raise ValueError(
            f"--tokens-per-sample ({tokens_per_sample}) exceeds --max-positions "
            f"({args.max_positions}); lower the one or raise the other"
        )
    bos = Dictionary().bos()
    has_init_token = "init_token" in (options if OmegaConf.is_config(options) else vars(options))
    if has_init_token and options.init_token != bos:
        raise ValueError(
            f"--init-token is {options.init_token}: sentences would not begin with <s>, and "
            f"position 0 would not be [CLS]; pass --init-token {bos} (and --separator-token 2)"
        )
