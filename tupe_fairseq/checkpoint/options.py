"""The options that a checkpoint holds."""

import argparse
from typing import Any, Dict

from tupe_fairseq.checkpoint.restricted_load import CheckpointError


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
        raise CheckpointError(f"{path} holds no options: it is no fairseq checkpoint")
    return vars(args)
