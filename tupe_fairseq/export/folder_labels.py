"""The classes of a fine-tuned model folder, and the label/dict.txt that they become."""

import re
from typing import Any, Dict, List, Optional

from tupe_fairseq.checkpoint.restricted_load import CheckpointError
from tupe_fairseq.files.record import check_record

# what the library calls classes that nobody has named
_UNNAMED = re.compile(r"LABEL_\d+")


def label_names(config: Dict[str, Any], classes: int, path: str) -> List[str]:
    """The names of the classes of a head, in the order of its outputs.

    Args:
        config (dict): config.json; without its ``id2label`` the classes are LABEL_0, LABEL_1, ...
        classes (int): the outputs of the head.
        path (str): of config.json, for messages.
    Raises:
        ValueError: if ``id2label`` does not name each of them once.
    """
    given = config.get("id2label")
    if given is None:
        return [f"LABEL_{number}" for number in range(classes)]
    check_record(given, {str: str}, path, "id2label")
    if set(given) != {str(number) for number in range(classes)}:
        raise CheckpointError(
            f"{path} names {len(given)} classes in id2label, and the classification head has "
            f"{classes}"
        )
    names = [given[str(number)] for number in range(classes)]
    if len(set(names)) < classes:
        raise CheckpointError(f"{path} gives two classes of id2label the same name")
    return names


def label_lines(names: List[str], given: Optional[List[str]], path: str) -> List[str]:
    """The lines of label/dict.txt.

    Args:
        names (list of str): those of config.json.
        given (list of str, optional): the lines of ``--label-dict``, to use instead.
        path (str): of config.json, for messages.
    Raises:
        CheckpointError: if the two name the classes differently, or a name cannot be a label of
            fairseq's.
    """
    if given is None:
        for name in names:
            # fairseq-preprocess splits labels at spaces, as it does words
            if name.split() != [name]:
                raise CheckpointError(
                    f"{path}: the class {name[:80]!r} of id2label cannot be written in a dict.txt; "
                    "give --label-dict"
                )
        return [f"{name} 1" for name in names]
    theirs = [line.rpartition(" ")[0] for line in given][: len(names)]
    unnamed = all(map(_UNNAMED.fullmatch, names))
    as_words = [re.sub(r"\s+", "_", name.strip()) for name in names]
    if not unnamed and theirs not in (names, as_words) and len(theirs) == len(names):
        raise CheckpointError(
            f"--label-dict lists {', '.join(theirs)[:80]}, but {path} has the classes "
            f"{', '.join(names)[:80]}"
        )
    return given
