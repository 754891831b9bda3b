"""Names in the state dict of a tupe_roberta checkpoint, and what it records of its vocabulary."""

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor

from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, MASK

ENCODER = "encoder.sentence_encoder."
EMBEDDING = ENCODER + "embed_tokens.weight"
LM_HEAD = "encoder.lm_head."
VOCABULARY = "encoder.vocabulary_version"
#: the record of a head on the mean of a text's features, whose weights would fit one on <s>
POOLING = "pooling_version"
#: the name of the head for tags, unless --classification-head-name gives another
TAGGING_HEAD = "token_tagging_head"


def classification_heads(tensors: dict[str, Tensor]) -> dict[str, int]:
    """The classification heads of a state dict: name to number of classes."""
    return {
        name.split(".")[1]: tensor.size(0)
        for name, tensor in tensors.items()
        if name.startswith("classification_heads.") and name.endswith(".out_proj.bias")
    }


def symbols_of(lines: Iterable[str]) -> list[str]:
    """The tokens of fairseq's dictionary for the lines of a dict.txt, with ``<mask>``."""
    symbols = [*BUILT_IN_SYMBOLS, *(line.rpartition(" ")[0] for line in lines)]
    return symbols if MASK in symbols else [*symbols, MASK]


def vocabulary_version(symbols: Iterable[str]) -> Tensor:
    """A hash of a dictionary's tokens in order, int64 (): tells two vocabularies of one size."""
    digest = hashlib.sha256("\n".join(symbols).encode()).digest()
    # 48 bits: the sum over many checkpoints, of which an average is made, must not overflow
    return torch.tensor(int.from_bytes(digest[:6], "big"))
