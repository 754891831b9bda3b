"""Reads what fine-tuning needs from a pre-trained checkpoint, without running its code."""

import os
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from tupe_fairseq.checkpoint.contents import options_in
from tupe_fairseq.checkpoint.restricted_load import CheckpointError, restricted_load
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.position import POSITION_OPTIONS

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
    flags: Tuple[str, ...]
    max_positions: int
    vocabulary_size: int
    vocabulary_version: Optional[int]
    identity: Dict[str, Any]


def read_pretrained(path: str) -> Pretrained:
    """Read a checkpoint's options and what identifies it.

    Raises:
        FileNotFoundError: if it does not exist.
        CheckpointError: if it cannot be read, or is not of tupe_roberta.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(f"--checkpoint {path} is not a file; give a pre-trained checkpoint")
    state = restricted_load(path)
    options = options_in(state, f"--checkpoint {path}")
    arch = str(options.get("arch"))
    recorded = [name for name, o in POSITION_OPTIONS.items() if o.always_recorded]
    switches = [name for name in recorded if not POSITION_OPTIONS[name].is_number]
    missing = [name for name in (*_VALUES, *switches) if options.get(name) is None]
    if not arch.startswith("tupe_roberta") or missing:
        raise CheckpointError(
            f"--checkpoint {path} lacks position options: its --arch is {arch}, not tupe_roberta"
            + (f", and it has no {', '.join(missing)}" if missing else "")
        )
    tensors = state.get("model") or {}
    embedding = tensors.get("encoder.sentence_encoder.embed_tokens.weight")
    if embedding is None:
        raise CheckpointError(f"--checkpoint {path} holds no word embedding")
    version = tensors.get("encoder.vocabulary_version")
    return Pretrained(
        os.path.abspath(path),
        _flags(arch, options),
        int(options["max_positions"]),
        embedding.size(0),
        None if version is None else int(version),
        {
            "name": os.path.basename(path),
            "bytes": os.path.getsize(path),
            "sha256": file_sha256(path),
        },
    )


def _flags(arch: str, options: Dict[str, Any]) -> Tuple[str, ...]:
    words = ["--arch", arch]
    given = {name: options.get(name) for name in (*_VALUES, *_SWITCHES, "position_encoding")}
    given.update((name, options.get(name)) for name in POSITION_OPTIONS)
    for name, value in given.items():
        # not set, or a switch that is off
        if value is not None and value is not False:
            words += ["--" + name.replace("_", "-"), *([] if value is True else [str(value)])]
    return tuple(words)
