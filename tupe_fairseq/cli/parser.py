"""The parser of all commands, made of the fields of a command's options."""

import argparse
import difflib
import inspect
import itertools
import shlex
import textwrap
from dataclasses import MISSING, Field, fields
from typing import Any, NoReturn

from tupe_fairseq.flags import RENAMED, Options, arguments
from tupe_fairseq.options import flag

_STUDY = "see 'A study' in examples/positions"
_HEADS = "transformers trains such models, see examples/export"
_VOTES = "see 'Votes of seeds, temperatures' in examples/tasks"
#: flags that earlier versions had, and what to do instead
GONE = {
    "--bpe-codes": "split text by the authors' scripts, as examples/convert shows",
    "--calibrate": _VOTES,
    "--candidates": _HEADS,
    "--ensemble": _VOTES,
    "--finetune-flags": f"run tupe-finetune on each run, {_STUDY}",
    "--join-short": "run examples/pretraining/paper_text.py on the text before",
    "--pairs": f"run tupe-score on each run, {_STUDY}",
    "--shards": "prepare the text in parts, as examples/pretraining shows",
    "--stride": _HEADS,
    "--split-sentences": "run examples/pretraining/paper_text.py on the text before",
    "--tasks": f"run tupe-finetune on each run, {_STUDY}",
    "--test-fraction": "pre-training needs no test split",
    "--test-input": "pre-training needs no test split",
}


class _Formatter(argparse.HelpFormatter):
    def _split_lines(self, text, width):
        """Keep flags whole."""
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text, width, indent):
        return "\n".join(self._split_lines(text, width))

    def add_usage(self, usage, actions, groups, prefix=None):
        """Show only required arguments; the list below has the rest."""
        options = argparse.Action(["options"], "options", nargs=0)
        needed = [action for action in actions if action.required]
        super().add_usage(usage, [options, *needed], [], prefix)


class Parser(argparse.ArgumentParser):
    """argparse's parser, but it leaves values to the options, and an error is one line."""

    def __init__(self, options: type[Options], program: str):
        description, _, example = inspect.cleandoc(options.__doc__ or "").rpartition("\n\n")
        example = " ".join(example.split())
        prefix = "@" if options.takes_files else None
        super().__init__(
            program, None, description, example,
            formatter_class=_Formatter, fromfile_prefix_chars=prefix,
        )  # fmt: skip
        self.options, groups = options, {None: self}
        own = inspect.get_annotations(options)  # come first, after what is required

        def order(one: Field) -> tuple[bool, bool]:
            return one.default is not MISSING, one.default is not MISSING and one.name not in own

        for one in sorted(fields(options), key=order):
            group = one.metadata["group"]
            if one.metadata["help"] is not None:
                if group not in groups:
                    groups[group] = self.add_argument_group(group)
                _add(groups[group], one)

    def read(self, argv: list[str] | None) -> Any:
        """The options of a command line."""
        argv, passed = list(argv or []), []
        if "--" in argv and any(one.name == "train_flags" for one in fields(self.options)):
            argv, passed = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
        values = vars(self.parse_intermixed_args(self._with_names_of_today(argv)))
        if passed:
            values["train_flags"] = [*arguments(values["train_flags"]), *passed]
        return self.options(**values)

    def _with_names_of_today(self, argv: list[str]) -> list[str]:
        """Earlier flags by their names now.

        A positional argument may be given as a flag, too, as --checkpoint and --input once were:
        the checkpoint becomes the first word, and the input the last.
        """
        names = {flag(old): flag(new) for old, new in RENAMED.items()}
        positional = {flag(one.name) for one in fields(self.options) if one.metadata["positional"]}
        first, words, last = [], [], []
        rest = iter(argv)
        for word in rest:
            name, equals, value = word.partition("=")
            if name in positional:
                place = first if name == "--checkpoint" else last
                place += [value] if equals else [*itertools.islice(rest, 1)]
            else:
                words.append(names.get(name, name) + equals + value)
        return first + words + last

    def convert_arg_line_to_args(self, line: str) -> list[str]:
        try:
            return shlex.split(line, comments=True)
        except ValueError as error:  # a quote is not closed
            raise ValueError(f"{error} in the line: {line.strip()}") from error

    def error(self, message: str) -> NoReturn:
        flags = [word.partition("=")[0] for word in message.split() if word.startswith("--")]
        for name in flags if message.startswith("unrecognized arguments") else ():
            near = difflib.get_close_matches(name, self._option_string_actions, 1)
            if name in GONE:
                message += f"; {name} is gone: {GONE[name]}"
            elif near:
                message += f"; did you mean {near[0]}?"
        self.exit(2, f"{self.prog}: error: {message}\n")


def _add(parser: Any, one: Field) -> None:
    """Add the flag of a field, or its positional argument."""
    data, is_required = one.metadata, one.default is MISSING
    kept: dict[str, Any] = {"help": data["help"].replace("%", "%%"), "metavar": data["metavar"]}
    if data["type"] is bool:
        kept |= {"action": "store_true"}
        del kept["metavar"]
    if data["many"]:
        kept |= {"nargs": "+", "action": "extend"}
    if not is_required:
        kept["default"] = one.default
    if data["positional"]:
        parser.add_argument(one.name, **kept, **({} if is_required else {"nargs": "?"}))
    else:
        parser.add_argument(flag(one.name), dest=one.name, required=is_required, **kept)
