"""What all console scripts share: the log, exit codes, interruption."""

import argparse
import logging
import sys
from typing import Callable, List, Optional


def run_program(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], None],
    argv: Optional[List[str]] = None,
) -> None:
    """Parse the arguments and run; wrong input ends with exit code 2 and one line that says why."""
    args = parser.parse_args(argv)
    # force: importing fairseq has already configured logging
    logging.basicConfig(format=f"{parser.prog}: %(message)s", level=logging.INFO, force=True)
    try:
        run(args)
    except (OSError, ValueError) as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted", file=sys.stderr)
        sys.exit(130)
