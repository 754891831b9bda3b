"""What --metrics and --class-weights may be, for every criterion that has them."""

import math
from typing import List, Optional, Sequence

import torch
from torch import Tensor

METRICS_HELP = (
    "comma-separated metrics that are computed over the validation set, such as accuracy,macro_f1"
)
WEIGHTS_HELP = (
    "comma-separated weights in the loss, one for each class in the order of label/dict.txt; of "
    "--multilabel, those of the rows that have the label; default: 1 each"
)


def parse_metrics(text: str, kind: str, labels: Sequence[str]) -> List[str]:
    """The names in ``--metrics``.

    Args:
        text (str): as given.
        kind (str): of the task.
        labels (sequence of str): classes, labels or tags; empty for a regression.
    Raises:
        ValueError: if there is none, or one is not a metric of such a task.
    """
    # imported here, because pre-training does not need scikit-learn
    from tupe_fairseq.labelled.metrics import check_metrics

    names = list(dict.fromkeys(text.split(",")))
    check_metrics(names, kind, labels, f"--metrics {text}")
    return names


def parse_weights(text: Optional[str], labels: Sequence[str]) -> Optional[Tensor]:
    """The weights in ``--class-weights``; None if there are none.

    Args:
        text (str, optional): as given.
        labels (sequence of str): classes, labels or tags; empty for a regression.
    Returns:
        Tensor: (C), float32, on the CPU.
    Raises:
        ValueError: if there are no classes, another number of them, or one is not a number above 0.
    """
    if not text:
        return None
    if not labels:
        raise ValueError(f"--class-weights {text}: a regression has no classes; drop it")
    words = text.split(",")
    if len(words) != len(labels):
        raise ValueError(
            f"--class-weights {text} has {len(words)} weights; there are {len(labels)} labels: "
            f"{', '.join(labels)}"
        )
    return torch.tensor([_weight(word, text) for word in words], device="cpu")


def _weight(word: str, text: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"--class-weights {text}: {word!r} is not a number above 0")
    return value
