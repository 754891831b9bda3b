"""Reads the file of --config, whose keys are the flags of a command."""

import argparse
import difflib
from collections.abc import Sequence
from typing import Any

_FLAG = "--config"
_SWITCH = {"true": True, "false": False}
# what a node of YAML has that is given no tag
_TEXT, _SEQUENCE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:seq"


def take_config(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """If the words give --config, make what the file says the defaults of the parser.

    What is in the file is read as on the command line: no value has a type of its own in YAML.

    Args:
        parser (ArgumentParser): of a command; nothing happens if it has no --config.
        words (sequence of str): what the command line gives.
    Raises:
        ModuleNotFoundError: if there is no package that reads YAML.
        OSError: if the file cannot be read.
        ValueError: if it is no YAML, or has other keys or values; the message names file, line
            and key.
    """
    # argparse takes the beginning of a flag for it
    if _FLAG not in parser._option_string_actions or not any(
        len(word) > 2 and _FLAG.startswith(word.split("=")[0]) for word in words
    ):
        return
    required = [action for action in parser._actions if action.required]
    for action in required:  # the file may have them
        action.required = False
    path = parser.parse_args(words).config
    for action in required:
        action.required = True
    if path is not None:
        for action, value in _values(parser, path).items():
            action.default, action.required = value, False


def _values(parser: argparse.ArgumentParser, path: str) -> dict[argparse.Action, Any]:
    """The value of each flag in the file."""
    flags = {_key(action): action for action in parser._actions}
    for name in ("config", "help"):
        del flags[name]
    separators = parser._option_string_actions[_FLAG].separators  # type: ignore[attr-defined]
    found: dict[argparse.Action, Any] = {}
    for line, key, parts, is_list in _entries(path):
        place = f"{_FLAG} {path}, line {line}: {key}"
        if key not in flags:
            close = difflib.get_close_matches(key, flags, 1)
            advice = f"did you mean {close[0]}?" if close else f"flags are {', '.join(flags)}"
            raise ValueError(f"{place} is not a flag of {parser.prog}; {advice}")
        if flags[key] in found:
            raise ValueError(f"{place} is there twice")
        if is_list and key not in separators:
            raise ValueError(f"{place} takes one value, not a list")
        text = separators[key].join(parts) if is_list else parts[0]
        try:
            found[flags[key]] = _value(parser, flags[key], text)
        except argparse.ArgumentError as error:
            raise ValueError(f"{place}: {error.message}") from error
    return found


def _key(action: argparse.Action) -> str:
    return action.option_strings[-1][2:] if action.option_strings else action.dest


def _value(parser: argparse.ArgumentParser, action: argparse.Action, text: str) -> Any:
    """As argparse reads it on the command line."""
    if action.nargs == 0:
        if text not in _SWITCH:
            raise argparse.ArgumentError(None, f"a switch is true or false, not {text!r}")
        return _SWITCH[text]
    value = parser._get_value(action, text)
    parser._check_value(action, value)
    return value


def _entries(path: str) -> list[tuple[int, str, list[str], bool]]:
    """Line, key, value or values, and whether it is a list, of everything in the file."""
    import yaml  # comes with fairseq, and only few calls need it

    with open(path, encoding="utf-8") as file:
        try:
            # nodes, not objects: their tags, which could call something, are never looked up
            root = yaml.compose(file.read(), Loader=yaml.BaseLoader)
        except (RecursionError, UnicodeDecodeError, yaml.YAMLError) as error:
            said = " ".join(str(error).split())
            raise ValueError(f"{_FLAG} {path} is not a YAML file: {said}") from error
    if not isinstance(root, yaml.MappingNode):
        raise ValueError(f"{_FLAG} {path} has no line of the form 'flag: value'")
    entries = []
    for key, value in root.value:
        is_list = isinstance(value, yaml.SequenceNode) and value.tag == _SEQUENCE
        parts = value.value if is_list else [value]
        for node in (key, *parts):
            if not isinstance(node, yaml.ScalarNode) or node.tag != _TEXT:
                raise ValueError(
                    f"{_FLAG} {path}, line {node.start_mark.line + 1}: a line is 'flag: value', or "
                    "'flag: [value, ...]', without tags"
                )
        texts = [part.value for part in parts]
        entries.append((key.start_mark.line + 1, key.value, texts, is_list))
    return entries
