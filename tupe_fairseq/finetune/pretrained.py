"""Reads what fine-tuning needs from a pre-trained checkpoint, without running its code.

``fairseq-train`` reads the same file again, with ``torch.load``: a file from a stranger is better
written anew first, by tupe-export and tupe-convert.
"""

import os
from dataclasses import dataclass
from typing import Any

from tupe_fairseq.checkpoint.checked_options import checked_options
from tupe_fairseq.checkpoint.checked_tensors import (
    EMBEDDING,
    VOCABULARY,
    check_finite,
    check_sizes,
    tensors_in,
)
from tupe_fairseq.checkpoint.contents import options_in
from tupe_fairseq.checkpoint.restricted_load import CheckpointError, restricted_load
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.options import ARCHITECTURES, POSITION_OPTIONS

_VALUES = (
    "encoder_layers",
    "encoder_embed_dim",
    "encoder_ffn_embed_dim",
    "encoder_attention_heads",
    "activation_fn",
    "pooler_activation_fn",
    "max_positions",
)
_SWITCHES = ("encoder_normalize_before", "untie_weights_roberta")


@dataclass(frozen=True)
class Pretrained:
    """A checkpoint of tupe_roberta.

    Args:
        path (str): the file, absolute.
        flags (tuple of str): the model as flags of fairseq-train.
        max_positions (int): the longest sequence in tokens.
        vocabulary_size (int): rows of the word embedding.
        vocabulary_version (int): :func:`tupe_fairseq.checkpoint.contents.vocabulary_version`;
            None in a checkpoint that does not record it.
        identity (dict): name, bytes and sha256 of the file.
    """

    path: str
    flags: tuple[str, ...]
    max_positions: int
    vocabulary_size: int
    vocabulary_version: int | None
    identity: dict[str, Any]


def read_pretrained(path: str) -> Pretrained:
    """Read a checkpoint's options and what identifies it.

    Raises:
        FileNotFoundError: if it does not exist.
        CheckpointError: if it cannot be read, or is not of tupe_roberta.
    """
    named = f"--checkpoint {path}"
    state = restricted_load(path)
    options = checked_options(options_in(state, named), named)
    recorded = [name for name, o in POSITION_OPTIONS.items() if o.always_recorded]
    switches = [name for name in recorded if POSITION_OPTIONS[name].default is False]
    missing = [name for name in (*_VALUES, *switches) if name not in options]
    if missing:
        raise CheckpointError(f"{named} lacks position options: it has no {', '.join(missing)}")
    if options["arch"] not in ARCHITECTURES:
        raise CheckpointError(
            f"{named} is refused: its arch is {options['arch']}, not one of "
            f"{', '.join(ARCHITECTURES)}"
        )
    tensors = tensors_in(state, named)
    check_sizes(options, tensors, named)
    check_finite(tensors, named)
    version = tensors.get(VOCABULARY)
    return Pretrained(
        os.path.abspath(path),
        _flags(options),
        options["max_positions"],
        tensors[EMBEDDING].size(0),
        None if version is None else int(version),
        {
            "name": os.path.basename(path),
            "bytes": os.path.getsize(path),
            "sha256": file_sha256(path),
        },
    )


def _flags(options: dict[str, Any]) -> tuple[str, ...]:
    words = []
    for name in ("arch", *_VALUES, *_SWITCHES, "position_encoding", *POSITION_OPTIONS):
        value, flag = options.get(name), "--" + name.replace("_", "-")
        # not set, or a switch that is off
        if value is not None and value is not False:
            # one word, so that no value could ever be a flag of its own
            words.append(flag if value is True else f"{flag}={value}")
    return tuple(words)
