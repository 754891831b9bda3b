"""tupe-options's flags."""

import argparse

from tupe_fairseq.options import ARCHITECTURES


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-options",
        description="List the flags with which fairseq-train sets up a tupe_roberta, each with its "
        "value in an architecture. (fairseq-train --help shows fairseq's flags alone: it answers "
        "before it looks at --arch.)",
        epilog="example: tupe-options --arch tupe_roberta_base",
    )
    parser.add_argument(
        "--arch",
        default="tupe_roberta_base",
        choices=list(ARCHITECTURES),
        help="architecture whose values are shown; default %(default)s",
    )
    return parser
