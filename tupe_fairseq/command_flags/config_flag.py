"""--config: a command's flags from a file."""

import argparse


def add_config_flag(parser: argparse.ArgumentParser, separators: dict[str, str]) -> None:
    """Let the flags of a command stand in a file, too.

    :mod:`tupe_fairseq.commands.config_file` reads it.

    Args:
        parser (ArgumentParser): of the command.
        separators (dict): key in the file to what separates the parts of its value on the command
            line; such a value may be a list in the file.
    """
    action = parser.add_argument(
        "--config",
        metavar="FILE",
        help="YAML file of flags: keys are their names without dashes (DATA is data), switches "
        "are true or false, LISTs may be lists; paths are relative to the current folder. What "
        "the command line gives wins",
    )
    action.separators = separators  # type: ignore[attr-defined]
