"""tupe-convert's flags."""

import argparse
import os

from tupe_fairseq.command_flags.given_paths import (
    can_be_written,
    check_is_file,
    refuse_files_there,
)
from tupe_fairseq.command_flags.vocabulary_flags import add_vocabulary_flags, given_vocabulary
from tupe_fairseq.files.names import DICTIONARY, MODEL


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-convert",
        description="Convert a checkpoint of the TUPE authors' code or of fairseq's stock RoBERTa "
        "(which becomes tupe_roberta with --position-encoding learned), or a folder of the "
        "transformers library with a model of ours (see tupe-export) or a RoBERTa, into "
        "OUT/model.pt and OUT/dict.txt. Weights and options are kept; the training state is not. "
        "No code is run that the file or folder contains. Given the files of the vocabulary (a "
        "folder's vocab.json and merges.txt are found), OUT serves as tupe-prepare-glue's "
        "--pretrain-dir and tupe-prepare-pretrain's --vocabulary.",
        epilog="example: tupe-convert --checkpoint checkpoint_best.pt --dict data-bin/dict.txt "
        "--bpe-codes bpe-code --output-dir tupe-base",
    )
    parser.add_argument(
        "--checkpoint",
        required=True,
        metavar="FILE",
        help="the checkpoint to convert, or the folder with config.json and model.safetensors",
    )
    parser.add_argument(
        "--dict",
        metavar="FILE",
        help="its dict.txt; of a folder only if it has neither dict.txt nor tokenizer.json",
    )
    parser.add_argument(
        "--label-dict",
        metavar="FILE",
        help="the label/dict.txt of a fine-tuned checkpoint: keeps the order of its "
        "classes and makes OUT a sentence_prediction checkpoint; a folder has one in its config",
    )
    parser.add_argument(
        "--untie",
        action="store_true",
        help="make TUPE-A of a model with learned positions, RoBERTa's or this project's, to be "
        "trained on: words, layers and heads are kept, the position bias is fitted",
    )
    parser.add_argument(
        "--anew",
        action="store_true",
        help="write a checkpoint of this project anew, with its weights and known options alone: "
        "one of fairseq's main branch for the commands of fairseq 0.12.2, or one from a stranger",
    )
    add_vocabulary_flags(parser)
    parser.add_argument("--output-dir", required=True, metavar="OUT", help="folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace files of an earlier run")
    return parser


def check(args: argparse.Namespace) -> None:
    """Refuse what is wrong whatever is in the files.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    if given_vocabulary(args) is None:
        _take_vocabulary_of_folder(args)
    for flag, path in (("--dict", args.dict), ("--label-dict", args.label_dict)):
        if path:
            check_is_file(flag, path)
    if args.anew and args.untie:
        raise ValueError("--anew and --untie exclude each other; drop one")
    if os.path.isdir(args.checkpoint):
        if args.anew:
            raise ValueError(f"--anew is for files, and {args.checkpoint} is a folder; drop it")
    else:
        check_is_file("--checkpoint", args.checkpoint)
        if not args.dict:
            raise ValueError(f"--checkpoint {args.checkpoint} is a file, which needs --dict, too")
    can_be_written("--output-dir", args.output_dir)
    refuse_files_there(args.output_dir, [MODEL, DICTIONARY], args.overwrite)


def _take_vocabulary_of_folder(args: argparse.Namespace) -> None:
    """The byte BPE of a RoBERTa of transformers, whose own ids its vocab.json has."""
    names = ("vocab.json", "merges.txt", "tokenizer.json")
    encoder, merges, tokenizer = (os.path.join(args.checkpoint, name) for name in names)
    if all(map(os.path.isfile, (encoder, merges, tokenizer))) and not args.dict:
        args.gpt2_encoder_json, args.gpt2_vocab_bpe = encoder, merges
