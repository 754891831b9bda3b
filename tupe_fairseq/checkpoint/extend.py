"""Makes a model of ours take longer sequences: ``tupe-extend``."""

import argparse

from torch import Tensor

from tupe_fairseq.checkpoint.longer_table import longer_table
from tupe_fairseq.checkpoint.state_dict import EMBEDDING, ENCODER
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.files.names import TABLE_METHODS
from tupe_fairseq.options import TupeConfig
from tupe_fairseq.position import PositionEncoding

_SHARED = f"{ENCODER}position_bias."


def extend(
    model: dict[str, Tensor],
    options: argparse.Namespace,
    max_positions: int,
    method: str | None,
) -> tuple[dict[str, Tensor], argparse.Namespace, list[str]]:
    """The same model for sequences of up to ``max_positions`` tokens; only a table changes.

    Args:
        model (dict): a whole state dict of tupe_roberta.
        options (Namespace): its options.
        max_positions (int): the new limit, [CLS] included.
        method (str, optional): see :func:`longer_table`; for encodings with a table, and
            ``interpolate`` for one whose unit of distances is ``max_positions``.
    Returns:
        tuple: state dict, options, and what is to be told.
    Raises:
        ValueError: if ``max_positions`` is not above the model's, or the encoding needs a method,
            or does not take this one; the message names the flag.
    """
    if max_positions <= options.max_positions:
        raise ValueError(
            f"--max-positions ({max_positions}) must be above the checkpoint's, "
            f"{options.max_positions}: nothing is cut off"
        )
    encoder = TupeEncoder(TupeConfig.from_roberta_options(options))
    encoder.load_state_dict(
        {name[len(ENCODER) :]: tensor.clone() for name, tensor in model.items()
         if name.startswith(ENCODER) and name != EMBEDDING}
    )  # fmt: skip
    position = next(iter(encoder.position_encodings().values()))
    _check_method(options.position_encoding, position, method)
    longer = {**vars(options), "max_positions": max_positions}
    # what fairseq's masked_lm takes for the longest sample
    longer["tokens_per_sample"] = max(max_positions, options.tokens_per_sample)
    new_options = argparse.Namespace(**longer)
    if method is None or position.TABLE is None:
        return model, new_options, [_without_table(options, position, max_positions)]
    table = longer_table(position, max_positions, method)
    name = _SHARED + position.TABLE
    remarks = [
        f"{name}: {model[name].size(0)} rows became {table.size(0)} (--method {method}); [CLS]'s "
        "and all other weights, tables by distance as well, are as they were"
    ]
    if method == "zero" and not position.uses("embed"):
        remarks.append(
            "the layer norm after the table makes one vector of all new rows: until it is trained "
            "on, the model cannot tell the new positions apart"
        )
    return {**model, name: table}, new_options, remarks


def _check_method(name: str, position: PositionEncoding, method: str | None) -> None:
    """Refuse a method that is missing, or would have no effect."""
    if position.TABLE is not None:
        if method is None:
            raise ValueError(
                f"{name} has a table of positions; give --method, one of {', '.join(TABLE_METHODS)}"
            )
    elif position.max_positions_is_unit:
        if method != "interpolate":
            raise ValueError(
                f"{name} measures distances in --max-positions, so that a longer one stretches "
                f"them: give --method interpolate, which says so, not {method}"
            )
    elif method is not None:
        raise ValueError(
            f"--method {method}: {name} has no table of positions, so there is nothing to make "
            "longer; drop it"
        )


def _without_table(
    options: argparse.Namespace, position: PositionEncoding, max_positions: int
) -> str:
    name = options.position_encoding
    if position.max_positions_is_unit:
        return (
            f"{name} measures distances in max_positions, now {max_positions}: those that it was "
            f"trained on are stretched by {max_positions / options.max_positions:g}, also in short "
            "texts; no weight has changed"
        )
    return (
        f"{name} has no table of positions: no weight has changed, only the recorded "
        f"max_positions, now {max_positions}"
    )
