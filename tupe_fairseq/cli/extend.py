"""tupe-extend: make a trained model take longer sequences."""

import logging

from tupe_fairseq.cli import arg_types
from tupe_fairseq.cli.shared_flags import (
    Parser,
    add_data_flag,
    add_output_flags,
    add_user_dir_flag,
)
from tupe_fairseq.options import LARGEST

logger = logging.getLogger("tupe-extend")


def get_parser() -> Parser:
    parser = Parser(
        prog="tupe-extend",
        description="Make a checkpoint of this project, pre-trained or fine-tuned, take longer "
        "sequences, and write it to OUT/model.pt, with its dictionary, vocabulary and report.json. "
        "Only a table of positions changes (tupe, learned, disentangled); the training state is "
        "not kept.",
        epilog="example: tupe-extend checkpoints/checkpoint_best.pt --method interpolate "
        "--max-positions 2048 --output-dir longer",
    )
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", type=arg_types.checkpoint, help="a tupe_roberta")
    add("--max-positions", type=arg_types.at_least(2, LARGEST), required=True, metavar="N",
        help="the longest sequence in tokens, <s> and </s> included; above the checkpoint's",
    )  # fmt: skip
    add("--method", choices=("interpolate", "tile"),
        help="how to make the new rows of a position table: interpolate spreads the trained rows "
        "over the new length (and stretches enformer's distances), tile repeats them; [CLS]'s row "
        "stays as it is")  # fmt: skip
    add_data_flag(parser)
    add_user_dir_flag(parser)
    add_output_flags(parser)
    return parser


def main(argv: list[str] | None = None) -> None:
    args = get_parser().parse_args(argv)
    from tupe_fairseq.checkpoint.extend import extend_checkpoint
    from tupe_fairseq.cli.printed_commands import next_command

    names = "checkpoint max_positions method data output_dir overwrite".split()
    options = extend_checkpoint(**{name: getattr(args, name) for name in names})
    logger.info("wrote %s", args.output_dir)
    # fairseq joins lines of the old data into longer samples, so no new data is needed
    data = args.data if options.task in ("masked_lm", "tupe_masked_lm") else None
    print(next_command(args.output_dir, options, data, args.user_dir))
