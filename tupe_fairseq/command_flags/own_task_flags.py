"""tupe-prepare-task's flags for files, columns and labels."""

import argparse

from tupe_fairseq.labelled.own_task import TAG_SCHEMES

#: the defaults
VALID_SHARE, SEED, SEPARATOR = 0.1, 1, ","


def add_file_flags(parser: argparse.ArgumentParser) -> None:
    """Add what says which files and which of their columns."""
    add = parser.add_argument_group("files").add_argument
    add("--train", required=True, metavar="FILE", help="rows to train with")
    add("--valid", metavar="FILE", help="rows to validate with (default: a share of train)")
    add("--test", metavar="FILE", help="rows to predict; labels may be absent")
    add(
        "--valid-share", type=float, metavar="SHARE",
        help="without --valid: the share of train that is put aside for it, with the same share of "
        f"each class (default: {VALID_SHARE})",
    )  # fmt: skip
    add(
        "--seed", type=int, metavar="N",
        help=f"without --valid: of the draw of these rows (default: {SEED})",
    )  # fmt: skip
    add(
        "--text", metavar="COLUMN",
        help="the column of the text, by name or number from 1; of tagging, that of the words: a "
        "list, or a text with spaces between (default: guessed by the names, and said)",
    )  # fmt: skip
    add("--text2", metavar="COLUMN", help="with --text, for pairs: the column of the second text")
    add("--label", metavar="COLUMN", help="the column of the label (default: guessed, and said)")
    add("--no-header", action="store_true", help="the first row of .tsv and .csv is a row already")


def add_label_flags(parser: argparse.ArgumentParser) -> None:
    """Add what says how labels are to be understood."""
    add = parser.add_argument_group("labels").add_argument
    add(
        "--labels", metavar="LIST",
        help="all labels or tags in the order of the classes, as a row of CSV; others are refused "
        "(default: those of train in alphabetical order, or as numbers)",
    )  # fmt: skip
    add(
        "--label-separator", metavar="SIGN",
        help=f"multilabel: what is between the labels of a row, if it has no list (default: "
        f"{SEPARATOR!r})",
    )  # fmt: skip
    add(
        "--tags", choices=TAG_SCHEMES,
        help="tagging: bio, B-x, I-x and O, is checked and measured by entities; plain is any tags "
        "(default: bio if the tags look like it)",
    )  # fmt: skip
    add(
        "--scale", metavar="LOW,HIGH",
        help="regression: the lowest and the highest score, with = before a sign, as in "
        "--scale=-1,1 (default: those of train)",
    )  # fmt: skip
