"""tupe-prepare-task: turn your labelled files into data for fine-tuning."""

import csv
import logging

from tupe_fairseq.cli import arg_types
from tupe_fairseq.cli.prepare_glue import add_encoding_flags, log_next
from tupe_fairseq.cli.shared_flags import Parser, add_user_dir_flag, vocabulary_files
from tupe_fairseq.kinds import KINDS
from tupe_fairseq.prepare import prepare_task

logger = logging.getLogger("tupe-prepare-task")


def get_parser() -> Parser:
    parser = Parser(
        prog="tupe-prepare-task",
        description="Turn your labelled texts into a folder for tupe-finetune, with the vocabulary "
        "of the pre-training. Files are .tsv, .csv, .jsonl, .parquet, or .conll for tagging "
        "(all but .parquet also compressed, as .gz, .xz or .bz2).",
        epilog="example: tupe-prepare-task --kind classification --train reviews.csv --text review "
        "--label verdict --folds 5 --pretrain-dir data-bin --output-dir tasks/reviews (for a "
        "cross-validated score of all rows)",
    )
    add = parser.add_argument
    kinds = ", ".join(f"{kind.name} ({kind.help})" for kind in KINDS.values())
    text = f"what is predicted for a row: {kinds}, or one that --user-dir registers"
    add("--kind", required=True, metavar="KIND", help=text)
    add_user_dir_flag(parser)
    add_encoding_flags(parser, "the data folder to write")
    add = parser.add_argument_group("files").add_argument
    rows = {"type": arg_types.rows_file, "metavar": "FILE"}
    add("--train", required=True, help="rows to train with", **rows)
    add("--valid", help="rows to validate with (default: a share of train)", **rows)
    add("--test", help="rows to predict; labels may be absent", **rows)
    text = "without --valid: hold out this share of train, and of each class, for it "
    add("--valid-share", type=float, metavar="SHARE", help=text + "(default: 0.1)")
    text = "without --test: first hold out this share of train, to be scored once at the end"
    add("--test-share", type=float, metavar="SHARE", help=text)
    text = "draw K test parts: tupe-finetune tests each row of train once, with a model that has "
    text += "not seen it; --valid-share is a share of the other rows"
    add("--folds", type=int, metavar="K", help=text)
    add("--seed", type=arg_types.at_least(0), metavar="N", help="of all random splits (default: 1)")
    text = "column of the text, or for tagging of the words, a list or separated by spaces "
    text += "(default: guessed from the names, and printed; .conll has columns 1, 2, ...)"
    add("--text", metavar="COLUMN", help=text)
    add("--text2", metavar="COLUMN", help="with --text, for pairs: column of the second text")
    add("--label", metavar="COLUMN", help="column of the label (default: guessed, and printed)")
    text = "column of a person, a document, ...: its rows stay in one part; if files are given, "
    text += "those that share it with train are counted"
    add("--group", metavar="COLUMN", help=text)
    text = "leave out and count rows that cannot be used (missing fields, an unknown label, bytes "
    text += "that are not UTF-8, ...); by default the first one is an error"
    add("--skip-bad-rows", action="store_true", help=text)
    add = parser.add_argument_group("labels").add_argument
    text = "all labels or tags in the order of the classes, as a row of CSV (default: those of "
    text += "train in alphabetical order, or numerical order if all are numbers)"
    add("--labels", type=_labels, metavar="LIST", help=text)
    text = "multilabel: the separator of labels that are not a list (default: ',')"
    add("--label-separator", metavar="SIGN", help=text)
    return parser


def main(argv: list[str] | None = None) -> None:
    args = (parser := get_parser()).parse_args(argv)
    vocabulary = vocabulary_files(parser, args)
    del args.user_dir  # it was imported at once
    prepare_task(vocabulary=vocabulary, **vars(args))
    log_next(logger, args.output_dir, args.pretrain_dir)


def _labels(text: str) -> tuple[str, ...]:
    return tuple(label.strip() for label in next(csv.reader([text])))
