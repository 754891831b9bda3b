"""tupe-doctor's flags."""

import argparse

from tupe_fairseq.command_flags.given_paths import check_is_file, check_is_folder


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-doctor",
        description="Check Python, torch, numpy, fairseq, omegaconf, the plugin and the devices; "
        "and whether a checkpoint, data and a vocabulary belong together. A line a check: what "
        "was found, what is wrong, and the command that mends it. The checkpoint is read without "
        "running any code that it contains.",
        epilog="exit code: 0, 1 with warnings, 2 with errors; example: tupe-doctor --checkpoint "
        "checkpoints/checkpoint_best.pt --data data-bin",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="a model: one of this project, fairseq's stock RoBERTa or the TUPE authors'",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder with dict.txt, or input0/dict.txt, and binarized text; default: the "
        "checkpoint's folder, of which the dictionary and vocabulary are taken",
    )
    parser.add_argument(
        "--sentencepiece-model",
        metavar="FILE",
        help="default: what is beside the data or the checkpoint",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def check(args: argparse.Namespace) -> None:
    """Refuse paths that are wrong.

    Raises:
        OSError: the message names the flag.
    """
    if args.checkpoint is not None:
        check_is_file("--checkpoint", args.checkpoint)
    if args.sentencepiece_model is not None:
        check_is_file("--sentencepiece-model", args.sentencepiece_model)
    if args.data is not None:
        check_is_folder("--data", args.data)
