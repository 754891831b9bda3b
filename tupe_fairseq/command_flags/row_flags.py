"""The flags about the columns and rows of INPUT, and their checks."""

import argparse

from tupe_fairseq.command_flags.given_paths import check_is_file
from tupe_fairseq.rows.endings import DELIMITED, ending_of

#: what INPUT is then
STANDARD_INPUT = "-"


def add_input_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags about INPUT's columns and rows."""
    add = parser.add_argument_group("rows").add_argument
    add("--text", metavar="COL", help="column of the text, by name or number; default: guessed")
    add("--text2", metavar="COL", help="column of the second text, for pairs; default: guessed")
    add(
        "--no-header",
        action="store_true",
        help="the first row of .tsv and .csv is a row like others; columns have numbers, from 1 on",
    )
    add(
        "--skip-bad-rows",
        action="store_true",
        help="leave out rows that are not as they should be, such as one with another number of "
        "columns, and count them; default: the first one is an error",
    )


def check_input_flags(args: argparse.Namespace) -> None:
    """Refuse an INPUT that cannot be rows, and flags that do not go with it.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    if args.text2 is not None and args.text is None:
        raise ValueError(f"--text2 {args.text2} needs --text, the column of the first text")
    if args.input == STANDARD_INPUT:
        for name in ("text", "text2", "no_header"):
            if getattr(args, name):
                raise ValueError(
                    f"--{name.replace('_', '-')} is for files; standard input has one text in each "
                    "line (pairs: two with a tab between)"
                )
        return
    check_is_file("INPUT", args.input)
    ending = ending_of(args.input)
    if args.no_header and ending not in DELIMITED:
        raise ValueError(f"--no-header is for .tsv and .csv; {args.input} is neither")
