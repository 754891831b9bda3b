"""tupe-export: a folder for transformers, sentence-transformers and onnxruntime."""

import argparse
import logging

from tupe_fairseq.cli import arg_types
from tupe_fairseq.cli.shared_flags import (
    add_data_flag,
    add_output_flags,
    add_vocabulary_flags,
    vocabulary_files,
)

logger = logging.getLogger("tupe-export")


#: what model hubs know
license_id = arg_types.matching(r"[a-z0-9][a-z0-9.+-]*", "an identifier such as mit or apache-2.0")
language = arg_types.matching(r"[a-z]{2,3}(-[A-Za-z0-9]+)*", "a code such as en or pt-BR")


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-export",
        description="Write a folder that transformers, sentence-transformers and, with --onnx, "
        "onnxruntime use like any other model, without fairseq and this package. Before it gets "
        "its name, it is compared with the checkpoint: the same token ids, logits within 1e-4.",
        epilog="example: tupe-export checkpoints/checkpoint_best.pt --output-dir my-model "
        "--license mit --language en",
    )
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", type=arg_types.checkpoint,
        help="pre-trained or fine-tuned")  # fmt: skip
    add_output_flags(parser)
    add_data_flag(parser)
    add_vocabulary_flags(parser)
    add("--head", metavar="NAME", help="classification head to export, if there are several")
    add("--as", dest="model_type", choices=("tupe", "roberta"), default="tupe",
        help="model type: tupe, whose code is in OUT, or transformers' own roberta, for "
        "--position-encoding learned without further position options; default %(default)s",
    )  # fmt: skip
    add("--pooling", choices=("mean", "cls"), default="mean",
        help="vector of a text in sentence-transformers: the mean of its tokens, or that of <s>; "
        "default %(default)s")  # fmt: skip
    add("--onnx", action="store_true", help="also write OUT/onnx/model.onnx for onnxruntime")
    add("--license", metavar="ID", type=license_id, help="for the model card, such as mit")
    add("--language", metavar="en,...", type=arg_types.comma_list(language), default=[],
        help="for the model card: languages of the training text")  # fmt: skip
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = get_parser()
    args = parser.parse_args(argv)
    vocabulary = vocabulary_files(parser, args)
    from tupe_fairseq.export import export_model

    names = "checkpoint output_dir data head model_type pooling onnx license overwrite".split()
    options = {name: getattr(args, name) for name in names}
    export_model(vocabulary=vocabulary, languages=args.language, **options)
    logger.info("wrote %s; its README.md says how to use it", args.output_dir)
