"""tupe-score --lengths: the loss of a text by the length of samples, and by position in them."""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tupe_fairseq.command_flags.score import sample_lengths
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.names import MASK
from tupe_fairseq.files.results import write_results
from tupe_fairseq.inference.masked_words import LoadedModel
from tupe_fairseq.scoring.loss_by_length import SHARE, LossAtLength, lengths_table, with_chosen
from tupe_fairseq.version import __version__

logger = logging.getLogger("tupe-score")

_FIGURE = "loss_by_length.png"


def given_lengths(args: argparse.Namespace) -> list[int]:
    """The lengths in order; none if the flag is not given.

    Raises:
        ModuleNotFoundError: if the figure cannot be drawn.
    """
    if args.lengths is None:
        return []
    if args.results is not None:
        import matplotlib  # noqa: F401  # refused before the work, not after it
    return sample_lengths(args.lengths)


def check_lengths(lengths: list[int], loaded: LoadedModel, checkpoint: str) -> None:
    """Refuse samples that are longer than the model takes.

    Raises:
        ValueError: it names the flag.
    """
    if lengths[-1] > loaded.max_positions:
        raise ValueError(
            f"--lengths: {lengths[-1]} is more than {checkpoint} takes, {loaded.max_positions}; "
            "make it longer with tupe-extend, or drop that length"
        )


def score_lengths(
    args: argparse.Namespace,
    loaded: LoadedModel,
    lengths: list[int],
    rows: Iterator[Any],
    device: str,
    batch_tokens: int,
    advance: Callable[[int], Any],
) -> None:
    """Measure and tell; the results appear when all is measured.

    Args:
        args (Namespace): of the command.
        loaded (LoadedModel): the model.
        lengths (list of int): in order.
        rows (iterator): each line's row and tokens, as :class:`RowEncoder` gives them.
        device (str): where to compute.
        batch_tokens (int): of a batch.
        advance (callable): called with the pieces that were read.
    Raises:
        OSError, ValueError: if the text is wrong, or has fewer tokens than the longest sample.
    """
    model, mask = loaded.model.to(device), loaded.symbols.index(MASK)
    parts = [
        LossAtLength(model, mask, length, lengths[0], device, batch_tokens) for length in lengths
    ]
    total = 0
    for tokens, chosen in with_chosen(one for _, sentences in rows for one in sentences):
        for part in parts:
            part.add(tokens, chosen)
        total += len(tokens)
        advance(len(tokens) - 1)
    if total < lengths[-1] - 1:
        raise ValueError(
            f"the text has {total} tokens, fewer than a sample of --lengths {lengths[-1]}; give "
            "more text, or drop that length"
        )
    for part in parts:
        part.finish()
    found = [part.to_dict() for part in parts]
    if not found[-1]["pieces"]:
        raise ValueError(f"none of the {total} tokens was drawn to be masked; give more text")
    _tell(args, found)


def _tell(args: argparse.Namespace, found: list[Any]) -> None:
    table = lengths_table(found)
    sys.stdout.write(table)
    sys.stdout.flush()
    if args.results is None:
        return
    content = {
        "version": __version__,
        "checkpoint": {"path": args.checkpoint, "sha256": file_sha256(args.checkpoint)},
        "input": args.input,
        "masked_share": SHARE,
        "lengths": found,
    }
    write_results(args.results, content, f"`{args.checkpoint}`\n\n{table}")
    # only now: matplotlib takes a second, and logs while it is imported
    from tupe_fairseq.plots import canvas
    from tupe_fairseq.plots.length_curves import length_curves

    path = os.path.join(args.results, _FIGURE)
    canvas.save_png(length_curves(args.checkpoint, found), path, dpi=130)
    logger.info("wrote results.md, results.json and %s in %s", _FIGURE, args.results)
