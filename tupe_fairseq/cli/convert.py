"""tupe-convert: turn checkpoints of other code and transformers folders into this project's."""

import argparse
import logging
import os
import shlex

from tupe_fairseq.cli import arg_types
from tupe_fairseq.cli.shared_flags import (
    CHOICES,
    Parser,
    add_output_flags,
    add_user_dir_flag,
    add_vocabulary_flags,
    vocabulary_files,
)

logger = logging.getLogger("tupe-convert")


def checkpoint_or_folder(text: str) -> str:
    if not os.path.exists(text) and not text.endswith(".pt"):
        raise argparse.ArgumentTypeError(
            f"{text} does not exist; if it is a model of the Hugging Face hub, download it first: "
            f"hf download {text} --local-dir {os.path.basename(text)}"
        )
    is_for_transformers = os.path.exists(os.path.join(text, "config.json"))
    if not is_for_transformers and os.path.exists(os.path.join(text, "model.safetensors")):
        raise argparse.ArgumentTypeError(f"{text} has model.safetensors, but no config.json")
    return text if is_for_transformers else arg_types.checkpoint(text)


def get_parser() -> Parser:
    parser = Parser(
        prog="tupe-convert",
        description="Convert a checkpoint of the TUPE authors' code or of fairseq's RoBERTa, or a "
        "folder of transformers (see tupe-export), to OUT/model.pt and OUT/dict.txt. It "
        "keeps weights, options and heads, but not the training state, and runs no code from the "
        "file. Folders of tupe-export and of RoBERTa have the vocabulary; else give its files.",
        epilog="example: tupe-convert --checkpoint checkpoint_best.pt --dict data-bin/dict.txt "
        "--output-dir tupe-base",
    )
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="FILE", type=checkpoint_or_folder,
        help="the checkpoint, or a folder with config.json and model.safetensors")  # fmt: skip
    add("--dict", dest="dictionary", metavar="FILE", type=arg_types.file,
        help="its dict.txt, if neither that nor tokenizer.json is beside it",
    )  # fmt: skip
    add("--label-dict", metavar="FILE", type=arg_types.file,
        help="label/dict.txt of a fine-tuned checkpoint, for the order of its classes; a folder "
        "has its labels in config.json")  # fmt: skip
    add("--untie", action="store_true",
        help="turn a model with learned positions, RoBERTa's or this project's, into TUPE-A; its "
        "position bias is new, so you must train it further")  # fmt: skip
    add_user_dir_flag(parser)
    add_vocabulary_flags(parser)
    add_output_flags(parser)
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = get_parser()
    args = parser.parse_args(argv)
    vocabulary = vocabulary_files(parser, args)
    from tupe_fairseq.cli.printed_commands import next_command
    from tupe_fairseq.data.tokenizer import VOCABULARY
    from tupe_fairseq.export import convert_checkpoint

    names = "checkpoint output_dir dictionary label_dict untie overwrite".split()
    flags = {name: getattr(args, name) for name in names}
    options = convert_checkpoint(vocabulary=vocabulary, **flags)
    logger.info("wrote %s", args.output_dir)
    if os.path.exists(os.path.join(args.output_dir, VOCABULARY)):
        pretrain = shlex.join(["--pretrain-dir", args.output_dir])
        logger.info("to fine-tune it, next: tupe-prepare-task %s ... (see --help)", pretrain)
    else:
        logger.info("it has no vocabulary; to prepare data, also give its files (%s)", CHOICES)
    print(next_command(args.output_dir, options))
