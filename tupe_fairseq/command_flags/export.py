"""tupe-export's flags."""

import argparse
import shutil
import sys

from tupe_fairseq.command_flags.given_paths import (
    can_be_written,
    check_is_checkpoint,
    check_is_file,
)
from tupe_fairseq.command_flags.vocabulary_flags import add_vocabulary_flags, given_vocabulary
from tupe_fairseq.data.tokenizer import find_dictionary, places_of
from tupe_fairseq.export.card_flags import checked_languages, checked_license
from tupe_fairseq.export.model_types import MODEL_TYPE, MODEL_TYPES
from tupe_fairseq.export.sample_texts import LIMIT, default_texts
from tupe_fairseq.files.names import MEAN, POOLING_NAMES
from tupe_fairseq.files.staged_folder import refuse_existing


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-export",
        description="Make a folder of a tupe_roberta checkpoint that transformers, "
        "sentence-transformers and, with --onnx, onnxruntime use like any other model, without "
        "fairseq and this package. dict.txt, the vocabulary and the labels are those beside the "
        "checkpoint or in --data. Before the folder gets its name, it is used through transformers "
        f"and compared with the checkpoint: the same token ids, logits within {LIMIT:.0e}. The "
        "checkpoint is read without running any code that it contains.",
        epilog="example: tupe-export checkpoints/checkpoint_best.pt --data data-bin --output-dir "
        "my-model --license mit --language en",
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="pre-trained or fine-tuned")
    parser.add_argument(
        "--output-dir", required=True, metavar="OUT", help="folder to write; not there yet"
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="OUT may be there: its files of an earlier export are replaced, others stay",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder with dict.txt, the vocabulary and, of a fine-tuned model, label/dict.txt; "
        "what it has not is taken from the checkpoint's folder; default: the latter",
    )
    add_vocabulary_flags(parser)
    parser.add_argument(
        "--head",
        metavar="NAME",
        help="the classification head to export; needed if the checkpoint has several",
    )
    parser.add_argument(
        "--label-dict", metavar="FILE", help="its label/dict.txt; default: that of the data"
    )
    parser.add_argument(
        "--padded-vocabulary",
        action="store_true",
        help="export the words with which dict.txt was filled up (madeupword0000, ...), too",
    )
    parser.add_argument(
        "--as",
        dest="model_type",
        choices=MODEL_TYPES,
        default=MODEL_TYPE,
        help="the model type: tupe, whose code is in OUT, or, for --position-encoding learned "
        "without further position options, transformers' own roberta; default %(default)s",
    )
    parser.add_argument(
        "--pooling",
        choices=POOLING_NAMES,
        default=MEAN,
        help="the vector of a text in sentence-transformers: the mean of its tokens, or that of "
        "<s>; default %(default)s",
    )
    parser.add_argument(
        "--onnx", action="store_true", help="also write OUT/onnx/model.onnx, for onnxruntime"
    )
    parser.add_argument(
        "--sample",
        metavar="FILE",
        help="text, a sentence per line, on which OUT is compared with the checkpoint; default: "
        f"{len(default_texts())} built-in texts",
    )
    parser.add_argument(
        "--python",
        metavar="FILE",
        default=sys.executable,
        help="the Python with whose transformers OUT is compared; for an environment in which "
        "transformers does not work beside fairseq; default: this one",
    )
    parser.add_argument(
        "--license", metavar="ID", help="for the model card: the model's license, such as mit"
    )
    parser.add_argument(
        "--language", metavar="en,...", help="for the model card: the languages of its text"
    )
    return parser


def check(args: argparse.Namespace) -> None:
    """Refuse what is wrong whatever is in the files.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    refuse_existing(args.output_dir, args.overwrite)
    can_be_written("--output-dir", args.output_dir)
    if args.license is not None:
        checked_license(args.license)
    if args.language is not None:
        checked_languages(args.language)
    check_is_checkpoint(args.checkpoint)
    find_dictionary(places_of(args.checkpoint, args.data))
    for flag, path in (("--label-dict", args.label_dict), ("--sample", args.sample)):
        if path is not None:
            check_is_file(flag, path)
    if shutil.which(args.python) is None:
        raise ValueError(f"--python {args.python} cannot be started: there is no such program")
    given_vocabulary(args)
