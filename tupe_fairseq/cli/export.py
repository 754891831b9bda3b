"""tupe-export: a folder for transformers, sentence-transformers and onnxruntime."""

import logging

from tupe_fairseq.cli import arg_types
from tupe_fairseq.cli.shared_flags import (
    Parser,
    add_data_flag,
    add_output_flags,
    add_user_dir_flag,
    add_vocabulary_flags,
    vocabulary_files,
)

logger = logging.getLogger("tupe-export")


def get_parser() -> Parser:
    parser = Parser(
        prog="tupe-export",
        description="Write a folder that transformers, sentence-transformers and, with --onnx, "
        "onnxruntime use like any other model, without fairseq and this package. It is only "
        "written if it matches the checkpoint: the same token ids, logits within 1e-4.",
        epilog="example: tupe-export checkpoints/checkpoint_best.pt --output-dir my-model --onnx",
    )
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", type=arg_types.checkpoint,
        help="pre-trained or fine-tuned")  # fmt: skip
    add_output_flags(parser)
    add_data_flag(parser)
    add_user_dir_flag(parser)
    add_vocabulary_flags(parser)
    add("--as", dest="model_type", choices=("tupe", "roberta"), default="tupe",
        help="model type: tupe, whose code is in OUT, or transformers' own roberta, for "
        "--position-encoding learned without further position options; default %(default)s",
    )  # fmt: skip
    add("--pooling", choices=("mean", "cls"), default="mean",
        help="vector of a text in sentence-transformers: the mean of its tokens, or that of <s>; "
        "default %(default)s")  # fmt: skip
    add("--onnx", action="store_true", help="also write OUT/onnx/model.onnx for onnxruntime")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = get_parser()
    args = parser.parse_args(argv)
    vocabulary = vocabulary_files(parser, args)
    from tupe_fairseq.export import export_model

    names = "checkpoint output_dir data model_type pooling onnx overwrite".split()
    export_model(vocabulary=vocabulary, **{name: getattr(args, name) for name in names})
    logger.info("wrote %s; write the license into its README.md", args.output_dir)
