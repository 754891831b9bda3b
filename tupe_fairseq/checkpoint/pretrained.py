"""What training on from a checkpoint needs to know of it: its flags, sizes and vocabulary.

``fairseq-train`` reads the same file again, with ``torch.load``.
"""

import os
from dataclasses import dataclass
from typing import Any

from tupe_fairseq.checkpoint.allowed_options import check_sizes, checked_options
from tupe_fairseq.checkpoint.checkpoint import CheckpointError, loading, read
from tupe_fairseq.checkpoint.state_dict import EMBEDDING, VOCABULARY
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.options import ARCHITECTURES, POSITION_OPTIONS, flag

_NEEDED = (
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
        path: the file, absolute.
        flags: the model as flags of fairseq-train.
        max_positions: the longest sequence in tokens.
        vocabulary_size: rows of the word embedding.
        vocabulary_version: the recorded hash of its dictionary, if there is one.
        identity: name, bytes and sha256 of the file.
    """

    path: str
    flags: tuple[str, ...]
    max_positions: int
    vocabulary_size: int
    vocabulary_version: int | None
    identity: dict[str, Any]


def read_pretrained(path: str) -> Pretrained:
    """Read a checkpoint's options and what identifies it."""
    named = f"--checkpoint {path}"
    checkpoint = read(path)
    options, tensors = checked_options(checkpoint.options, named), checkpoint.tensors
    recorded = [name for name, o in POSITION_OPTIONS.items() if o.always_recorded]
    switches = [name for name in recorded if POSITION_OPTIONS[name].default is False]
    missing = [name for name in (*_NEEDED, *switches) if name not in options]
    if missing:
        raise CheckpointError(f"{named} lacks position options: it has no {', '.join(missing)}")
    if options["arch"] not in ARCHITECTURES:
        raise CheckpointError(
            f"{named} is refused: its arch is {options['arch']}, not one of "
            f"{', '.join(ARCHITECTURES)}"
        )
    check_sizes(options, tensors, named)
    with loading(path):
        version = None if VOCABULARY not in tensors else int(tensors[VOCABULARY])
    names = ("arch", *_NEEDED, *_SWITCHES, "position_encoding", *POSITION_OPTIONS)
    return Pretrained(
        path=os.path.abspath(path),
        flags=tuple(_flag(name, options[name]) for name in names if options.get(name)),
        max_positions=options["max_positions"],
        vocabulary_size=tensors[EMBEDDING].size(0),
        vocabulary_version=version,
        identity={
            "name": os.path.basename(path),
            "bytes": os.path.getsize(path),
            "sha256": file_sha256(path),
        },
    )


def _flag(name: str, value: Any) -> str:
    # one word, so that no value could ever be a flag of its own
    return flag(name) if value is True else f"{flag(name)}={value}"
