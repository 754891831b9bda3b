"""What a checkpoint holds in addition to weights: options, updates, a hash of its vocabulary."""

import argparse
import hashlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.restricted_load import CheckpointError
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, MASK


def options_in(state: dict[str, Any], path: str) -> dict[str, Any]:
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
        if isinstance(args, dict):  # a Hydra run, where each part has options of its own
            parts = {name: config.get(name) for name in ("task", "criterion")}
            parts = {name: part for name, part in parts.items() if isinstance(part, dict)}
            named = {name: part.get("_name") for name, part in parts.items()}
            others = {name: value for part in parts.values() for name, value in part.items()}
            return {**others, **args, **named, "arch": args.get("_name")}
    if not isinstance(args, argparse.Namespace):
        raise CheckpointError(f"{path} holds no options, so it is not a fairseq checkpoint")
    return vars(args)


def updates_in(state: dict[str, Any], path: str) -> int:
    """The number of updates after which a checkpoint was written.

    Args:
        state (dict): the checkpoint.
        path (str): its name, for messages.
    Raises:
        CheckpointError: if it does not say.
    """
    history = state.get("optimizer_history")
    last = history[-1] if isinstance(history, list) and history else None
    updates = last.get("num_updates") if isinstance(last, dict) else None
    if type(updates) is not int or updates < 0:
        raise CheckpointError(f"{path} does not say after how many updates it was written")
    return updates


def best_in(state: dict[str, Any], path: str) -> float:
    """The best score that fairseq had seen when it wrote a checkpoint.

    Args:
        state (dict): the checkpoint.
        path (str): its name, for messages.
    Raises:
        CheckpointError: if it does not say.
    """
    extra = state.get("extra_state")
    best = extra.get("best") if isinstance(extra, dict) else None
    if type(best) not in (int, float):
        raise CheckpointError(f"{path} does not say how good it is")
    return float(best)


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


def symbols_of(lines: Iterable[str]) -> list[str]:
    """The symbols of fairseq's dictionary for the lines of a dict.txt, with ``<mask>``."""
    symbols = [*BUILT_IN_SYMBOLS, *(line.rpartition(" ")[0] for line in lines)]
    return symbols if MASK in symbols else [*symbols, MASK]
