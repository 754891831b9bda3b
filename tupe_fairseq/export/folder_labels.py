"""The classes of a fine-tuned model folder, and the label/dict.txt that they become."""

import re
from typing import Any

from tupe_fairseq.checkpoint.allowed_options import checked_options
from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.checkpoint.state_dict import TAGGING_HEAD
from tupe_fairseq.export.folder_config import PROBLEM_TYPES
from tupe_fairseq.files.record import check_record
from tupe_fairseq.labelled.labels import label_of, label_symbol
from tupe_fairseq.labelled.task_description import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING

# what the library calls classes that nobody has named
_UNNAMED = re.compile(r"LABEL_\d+")


def head_name(config: dict[str, Any], path: str, of_tokens: bool) -> str:
    """The name of the classification head in a checkpoint.

    Args:
        config (dict): the content of config.json.
        path (str): its name, for messages.
        of_tokens (bool): whether the head gives tags.
    Raises:
        CheckpointError: if config.json gives a name that no head can have.
    """
    usual = TAGGING_HEAD if of_tokens else "sentence_classification_head"
    name = config.get("classification_head_name") or usual
    checked_options({"arch": "tupe_roberta", "classification_head_name": name}, path)
    return name


def kind_of_head(config: dict[str, Any], outputs: int, of_tokens: bool) -> str:
    """The kind of task that a head is for: transformers takes one output for a score.

    Args:
        config (dict): the content of config.json.
        outputs (int): of the head.
        of_tokens (bool): whether it gives tags.
    """
    if of_tokens:
        return TAGGING
    kinds = {name: kind for kind, name in PROBLEM_TYPES.items()}
    kind = kinds.get(config.get("problem_type"), CLASSIFICATION)
    return REGRESSION if outputs == 1 and kind != MULTILABEL else kind


def label_lines(
    config: dict[str, Any], outputs: int, given: list[str] | None, path: str
) -> list[str]:
    """The lines of label/dict.txt, in the order of the head's outputs.

    Args:
        config (dict): the content of config.json.
        outputs (int): the number of classes.
        given (list of str, optional): the lines of ``--label-dict``, to use instead of its
            ``id2label``.
        path (str): the name of config.json, for messages.
    Raises:
        ValueError: if ``id2label`` does not name each class once, or ``given`` names them
            differently.
    """
    names = _names(config, outputs, path)
    if given is None:
        return [f"{label_symbol(name)} 1" for name in names]
    if len(given) < outputs:
        raise CheckpointError(
            f"--label-dict lists {len(given)} labels, but the head has {outputs} classes"
        )
    theirs = [label_of(line.rpartition(" ")[0]) for line in given][:outputs]
    swapped = any(
        a != b and (a in names or b in theirs) for a, b in zip(theirs, names)
    ) and not all(map(_UNNAMED.fullmatch, names))
    if swapped:
        raise CheckpointError(
            f"--label-dict lists {', '.join(theirs)[:80]}, but in {path} the classes are "
            f"{', '.join(names)[:80]}"
        )
    return given


def _names(config: dict[str, Any], outputs: int, path: str) -> list[str]:
    names = config.get("id2label")
    if names is None:  # transformers leaves out its own default
        return [f"LABEL_{number}" for number in range(outputs)]
    check_record(names, {str: str}, path, "id2label")
    if set(names) != {str(number) for number in range(outputs)}:
        raise CheckpointError(
            f"{path} names {len(names)} classes in id2label, and the classification head has "
            f"{outputs}"
        )
    ordered = [names[str(number)] for number in range(outputs)]
    if not all(ordered):
        raise CheckpointError(f"{path} gives a class of id2label no name")
    if len(set(ordered)) < outputs:
        raise CheckpointError(f"{path} gives two classes of id2label the same name")
    return ordered
