"""The flags about the columns and rows of INPUT."""

import argparse


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
