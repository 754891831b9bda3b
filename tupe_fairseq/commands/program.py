"""What all console scripts share: the log, exit codes, interruption."""

import argparse
import difflib
import logging
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from tupe_fairseq.commands.interruption import Interruption, raised

_LONGEST_LINE = 900

#: refuses arguments that are wrong whatever is in the files, by OSError or ValueError; and fills in
#: defaults that depend on other flags
Check = Callable[[argparse.Namespace], None]


def run_program(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], None],
    argv: list[str] | None = None,
    *,
    check: Check | None = None,
    resumes: bool = False,
) -> None:
    """Parse and check the arguments, and run.

    Wrong input ends it with exit code 2 and one line that says why.

    Ctrl-C and SIGTERM end it with one line, too, and exit codes 130 and 143.

    Args:
        parser (ArgumentParser): of the command.
        run (callable): its work; OSError and ValueError are about the input.
        argv (list of str): the arguments; those of the process if None.
        check (callable, optional): what the parser cannot check; None: there is nothing.
        resumes (bool): whether the same command, given again, goes on where it was interrupted.
    """
    args = parsed(parser, argv)
    if check is not None:
        checked(parser.prog, args, check)
    set_up_log(parser.prog)
    interruption = Interruption(parser.prog, "; run it again to go on" if resumes else "")
    with raised(interruption, ends_process=argv is None):
        try:
            run(args)
        except BaseException as error:
            if interruption.is_why(error):
                sys.exit(interruption.tell(sys.stderr.write))
            if not isinstance(error, (OSError, ValueError)):
                raise
            stop(parser.prog, error)


def stop(program: str, error: Exception | str) -> NoReturn:
    """End the process with one line that says what is wrong, and exit code 2."""
    print(f"{program}: error: {_shown(str(error))}", file=sys.stderr)
    sys.exit(2)


def set_up_log(program: str) -> None:
    """Log to standard error under the name of the program; of other libraries warnings only."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: record.levelno > logging.INFO or record.name[:4] == "tupe")
    # force: importing fairseq may have configured logging
    logging.basicConfig(
        format=f"{program}: %(message)s", level=logging.INFO, handlers=[handler], force=True
    )


def parsed(parser: argparse.ArgumentParser, argv: list[str] | None = None) -> argparse.Namespace:
    """The arguments; --help and wrong flags end the process, with exit codes 0 and 2."""
    words = sys.argv[1:] if argv is None else argv
    _refuse_unknown_flags(parser, words)
    return parser.parse_args(words)


def checked(program: str, args: argparse.Namespace, check: Check) -> None:
    """Check what the parser cannot; wrong values end the process, with exit code 2."""
    try:
        check(args)
    except (OSError, ValueError) as error:
        stop(program, error)


def _shown(message: str) -> str:
    """What a file says goes into messages, and must neither act on the terminal nor fill it."""
    lines = []
    for line in message.split("\n"):
        text = line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."
        lines.append("".join(c if c.isprintable() else repr(c)[1:-1] for c in text))
    return "\n".join(lines)


def _refuse_unknown_flags(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Name a misspelt flag; argparse would only say that the right one is missing."""
    known = [flag for action in parser._actions for flag in action.option_strings]
    for word in words:
        if word == "--":
            return
        name = word.split("=")[0]
        # argparse takes the beginning of a flag for it, and words with a space for values
        if name.startswith("--") and " " not in word:
            if not any(flag.startswith(name) for flag in known):
                close = difflib.get_close_matches(name, known, 1)
                advice = f"; did you mean {close[0]}?" if close else ""
                parser.error(f"there is no flag {name}{advice}")
