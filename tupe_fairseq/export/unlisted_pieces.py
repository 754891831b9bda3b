"""Words of a folder that its checkpoint does not have: pieces that dict.txt does not list.

fairseq takes such a piece for ``<unk>``.  A tokenizer gives each piece an id of its own; those of
the unlisted ones are the last, and the model has the vector of ``<unk>`` for each.
"""

from typing import Any

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.allowed_options import in_brief
from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS

#: how many there are, in config.json
FIELD = "unlisted_pieces"
UNKNOWN = BUILT_IN_SYMBOLS.index("<unk>")
_MATRICES = ("tupe.embed_tokens.weight", "lm_head.decoder.weight")
_BIAS = "lm_head.decoder.bias"
# What they have less than <unk> as predictions, so that even thousands of them take nothing from
# the probabilities of others; a loss on one is still finite.
_LESS = 20.0


def with_unlisted_rows(tensors: dict[str, Tensor], count: int) -> dict[str, Tensor]:
    """The tensors of a folder with ``count`` further words.

    Args:
        tensors (dict): under the names of a folder of ours.
        count (int): how many.
    """
    found = dict(tensors)
    for name in filter(found.__contains__, _MATRICES):
        row = found[name][UNKNOWN]
        found[name] = torch.cat([found[name], row.expand(count, -1)])
    less = found[_BIAS][UNKNOWN] - _LESS
    found[_BIAS] = torch.cat([found[_BIAS], less.expand(count)])
    return found


def unlisted_in(config: dict[str, Any], path: str) -> int:
    """How many a folder's config.json says that there are.

    Args:
        config (dict): its content.
        path (str): its name, for messages.
    Raises:
        CheckpointError: if that is no number of words of the model.
    """
    count, words = config[FIELD], config.get("vocab_size")
    if type(count) is not int or type(words) is not int or not 0 <= count < words:
        raise CheckpointError(
            f"{path}: {FIELD} is {in_brief(count)}, which must be a whole number below vocab_size "
            f"({in_brief(words)})"
        )
    return count


def without_unlisted_rows(tensors: dict[str, Tensor], count: int) -> dict[str, Tensor]:
    """The way back: the tensors without the last ``count`` words."""
    names = {*_MATRICES, _BIAS, *(name[len("tupe.") :] for name in _MATRICES[:1])}
    return {
        name: tensor[: len(tensor) - count].clone() if name in names else tensor
        for name, tensor in tensors.items()
    }
