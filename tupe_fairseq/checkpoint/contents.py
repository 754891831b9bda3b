"""What a checkpoint holds in addition to weights: options, updates, a hash of its vocabulary."""

import argparse
import hashlib
from typing import Any, Dict, Iterable, List

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.restricted_load import CheckpointError
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, MASK


def options_in(state: Dict[str, Any], path: str) -> Dict[str, Any]:
    """The options with which a checkpoint's model was built; its architecture is ``arch``.

    Args:
        state (dict): the checkpoint.
        path (str): its name, for messages.
    Raises:
        CheckpointError: if there are none.
    """
    args, config = state.get("args"), state.get("cfg")
    if args is None and isinstance(config, dict):  # fairseq since 0.10
        args = config.get("model")
        if isinstance(args, dict):  # a Hydra run, where the criterion names the head
            criterion = config.get("criterion")
            others = criterion if isinstance(criterion, dict) else {}
            return {**others, **args, "arch": args.get("_name")}
    if not isinstance(args, argparse.Namespace):
        raise CheckpointError(f"{path} holds no options, so it is not a fairseq checkpoint")
    return vars(args)


def updates_in(state: Dict[str, Any]) -> int:
    """The number of updates after which a checkpoint was written."""
    return int(state["optimizer_history"][-1]["num_updates"])


def vocabulary_version(symbols: Iterable[str]) -> Tensor:
    """A hash of the symbols in order, by which to notice another dict.txt of the same size.

    Args:
        symbols (iterable of str): those of fairseq's dictionary, the built-in ones and ``<mask>``
            included.
    Returns:
        Tensor: an int64 scalar.
    """
    digest = hashlib.sha256("\n".join(symbols).encode()).digest()
    # 48 bits: the sum over many checkpoints, of which an average is made, must not overflow
    return torch.tensor(int.from_bytes(digest[:6], "big"))


def symbols_of(lines: Iterable[str]) -> List[str]:
    """The symbols of fairseq's dictionary for the lines of a dict.txt, with ``<mask>``."""
    symbols = [*BUILT_IN_SYMBOLS, *(line.rpartition(" ")[0] for line in lines)]
    return symbols if MASK in symbols else [*symbols, MASK]
