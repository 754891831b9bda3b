"""The argument parser of all commands."""

import argparse
from typing import NoReturn


class _Formatter(argparse.HelpFormatter):
    def add_usage(self, usage, actions, groups, prefix=None):
        """Show only required arguments; the list below has the rest."""
        options = argparse.Action(["options"], "options", nargs=0)
        needed = [action for action in actions if action.required]
        super().add_usage(usage, [options, *needed], [], prefix)


class Parser(argparse.ArgumentParser):
    """argparse's parser, but an error is one line, without the usage."""

    def __init__(self, **options):
        super().__init__(formatter_class=_Formatter, **options)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")
