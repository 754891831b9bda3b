"""What all console scripts share: the log, exit codes, interruption."""

import argparse
import logging
import sys
from typing import Callable, List, Optional


def run_program(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], None],
    argv: Optional[List[str]] = None,
    *,
    resumes: bool = False,
) -> None:
    """Parse the arguments and run; wrong input ends with exit code 2 and one line that says why.

    Args:
        parser (ArgumentParser): of the command.
        run (callable): its work; OSError and ValueError are about the input.
        argv (list of str): the arguments; those of the process if None.
        resumes (bool): whether the same command, given again, goes on where it was interrupted.
    """
    args = parser.parse_args(argv)
    # force: importing fairseq has already configured logging
    logging.basicConfig(format=f"{parser.prog}: %(message)s", level=logging.INFO, force=True)
    try:
        run(args)
    except (OSError, ValueError) as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        advice = "; run it again to go on" if resumes else ""
        print(f"{parser.prog}: interrupted{advice}", file=sys.stderr)
        sys.exit(130)
