"""A model of other code as it was read, and how it becomes one of this project."""

import argparse
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from torch import Tensor

from tupe_fairseq.checkpoint import from_authors
from tupe_fairseq.checkpoint.checkpoint import CheckpointError, loading, read
from tupe_fairseq.checkpoint.convert import convert_dictionary, converter_of, fine_tuning_options
from tupe_fairseq.checkpoint.state_dict import (
    VOCABULARY,
    classification_heads,
    symbols_of,
    vocabulary_version,
)


@dataclass(frozen=True)
class ForeignModel:
    """A model of other code.

    Args:
        origin (str): what wrote it, in words.
        found (int): the number of its tensors there.
        tensors (dict): those that are kept, under our names; not yet compared with the options.
        options (Namespace): those of the tupe_roberta checkpoint that it becomes.
        lines (list of str): of the dict.txt with which every word has its id.
        is_authors (bool): whether its text was treated as the TUPE authors treat it.
        words (list of str): the words of its own dict.txt.
        head (str, optional): the classification head to go on with, if it was fine-tuned.
        labels (list of str, optional): the lines of its label/dict.txt; None if it has no classes.
        remarks (list of str): what is left out or added, to be told.
    """

    origin: str
    found: int
    tensors: dict[str, Tensor]
    options: argparse.Namespace
    lines: list[str]
    is_authors: bool
    words: list[str]
    head: str | None = None
    labels: list[str] | None = None
    remarks: list[str] = field(default_factory=list)


def read_checkpoint(
    path: str,
    lines: list[str],
    dictionary: str,
    label_lines: list[str] | None,
    label_dict: str,
    own: ModuleType | None = None,
) -> ForeignModel:
    """Read a checkpoint of the TUPE authors' code or of fairseq's RoBERTa without running its code.

    Args:
        path (str): the file.
        lines (list of str): of its dict.txt.
        dictionary (str): the name of that file, for messages.
        label_lines (list of str, optional): of its label/dict.txt, to go on with its head.
        label_dict (str): the name of that file, for messages.
        own (module, optional): what converts a checkpoint of our own; None refuses them.
    Raises:
        OSError: if it cannot be read.
        CheckpointError: if it is refused, damaged, or of another model.
    """
    checkpoint = read(path, finite=False)
    given, tensors = checkpoint.options, checkpoint.tensors
    with loading(path):
        converter = converter_of(given, own)
        options, head = converter.convert_options(given), None
        renamed = converter.rename_tensors(tensors)
    if own is not None and VOCABULARY in tensors:
        _check_vocabulary(tensors[VOCABULARY], lines, path, dictionary)
    if label_lines is not None:
        head = _labelled_head(tensors, given, label_lines, label_dict)
        options = fine_tuning_options(options, head, classification_heads(tensors)[head])
    return ForeignModel(
        converter.NAME,
        len(tensors),
        renamed,
        options,
        convert_dictionary(lines, dictionary, converter.HIDDEN_SYMBOLS),
        converter is from_authors,
        [line.rpartition(" ")[0] for line in lines],
        head,
        label_lines,
        ["left out the training state"],
    )


def _check_vocabulary(recorded: Tensor, lines: list[str], path: str, dictionary: str) -> None:
    """Refuse a dict.txt that is not the one with which a checkpoint of our own was trained."""
    if int(recorded) != int(vocabulary_version(symbols_of(lines))):
        raise CheckpointError(
            f"{path} was trained with other words, or in another order, than {dictionary} lists"
        )


def _labelled_head(
    tensors: dict[str, Tensor], given: dict[str, Any], label_lines: list[str], label_dict: str
) -> str:
    """The name of the fine-tuned head, whose classes the label dictionary must cover."""
    heads = classification_heads(tensors)
    name = given.get("classification_head_name", "sentence_classification_head")
    if not isinstance(name, str) or name not in heads:
        raise CheckpointError(
            f"--label-dict is given, but the checkpoint has no classification head {name!r}; it "
            f"has {', '.join(heads) or 'none'}"
        )
    if len(label_lines) < heads[name]:
        raise CheckpointError(
            f"{label_dict} lists {len(label_lines)} labels, but head {name!r} has {heads[name]} "
            "classes"
        )
    return name
