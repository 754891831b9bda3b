"""tupe-options: the model flags of fairseq-train, which its own --help leaves out."""

import argparse
from dataclasses import dataclass

from tupe_fairseq import flags
from tupe_fairseq.flags import one_of, option
from tupe_fairseq.options import ACTIVATIONS, ARCHITECTURES, FIXED_OPTIONS


@dataclass
class Options(flags.Options):
    """List the fairseq-train flags of a tupe_roberta, each with its value in an architecture.

    example: tupe-options --arch tupe_roberta_base
    """

    arch: str = option(
        f"one of {', '.join(ARCHITECTURES)}",
        one_of(*ARCHITECTURES), "tupe_roberta_base", metavar="ARCH",
    )  # fmt: skip


def main(options: Options) -> None:
    model_flags(options.arch).print_help()


def model_flags(arch: str) -> argparse.ArgumentParser:
    """A parser of the model's flags, with an architecture's values as defaults."""
    from fairseq.models import ARCH_CONFIG_REGISTRY
    from fairseq.models.roberta import RobertaModel

    from tupe_fairseq.models.tupe_roberta import add_tupe_args

    parser = argparse.ArgumentParser(
        prog="fairseq-train",
        usage=f"fairseq-train DATA --user-dir tupe_fairseq --arch {arch} --task TASK [flags]",
        description="Flags of the model, with the architecture's values. For those of tasks, "
        "optimizers and the rest see fairseq-train --help.",
        add_help=False,
        argument_default=argparse.SUPPRESS,  # else the architecture keeps None as a given value
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add_tupe_args(parser.add_argument_group("positions and attention"))
    RobertaModel.add_args(parser.add_argument_group("size, dropout and heads, as in RoBERTa"))
    values, _ = parser.parse_known_args([])
    ARCH_CONFIG_REGISTRY[arch](values)
    for group in parser._action_groups:
        for action in group._group_actions:
            value = None if action.nargs == 0 else getattr(values, action.dest, None)
            action.default = argparse.SUPPRESS if value is None else value
            if action.dest in FIXED_OPTIONS:
                action.help = argparse.SUPPRESS
            if action.dest == "activation_fn":  # fairseq lists some that only its encoder knows
                action.choices = sorted(ACTIVATIONS)
    return parser
