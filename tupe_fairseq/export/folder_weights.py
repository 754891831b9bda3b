"""The weights of a model folder: model.safetensors, or the parts that its index lists."""

import os
import re

from torch import Tensor

from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.export.safetensors_file import read_safetensors
from tupe_fairseq.files.record import read_record

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
# in the folder itself
_PART = re.compile(r"[\w.-]{1,200}\.safetensors", re.ASCII)
_PICKLED = re.compile(r".*\.(bin|pt|pth|ckpt)|.*\.bin\.index\.json")


def read_weights(folder: str) -> dict[str, Tensor]:
    """The tensors of a folder by the names that they have there.

    Args:
        folder (str): as ``save_pretrained`` writes it.
    Raises:
        FileNotFoundError: if a file is missing.
        OSError: if one cannot be read.
        CheckpointError: if the weights are there as a pickle only, or a file is damaged.
        ValueError: if the index is not one.
    """
    whole, index = os.path.join(folder, WEIGHTS), os.path.join(folder, INDEX)
    if os.path.lexists(whole):
        return read_safetensors(whole)
    if not os.path.lexists(index):
        pickled = sorted(name for name in os.listdir(folder) if _PICKLED.fullmatch(name))
        if pickled:
            raise CheckpointError(
                f"{folder} has its weights as a pickle, {pickled[0]}, which could run code and is "
                f"not read; save the model as safetensors ({WEIGHTS}), save_pretrained's default"
            )
        raise FileNotFoundError(f"{whole} is missing")
    places: dict[str, str] = read_record(index, {"weight_map": {str: str}})["weight_map"]
    tensors: dict[str, Tensor] = {}
    for part in sorted(set(places.values())):
        path = os.path.join(folder, part)
        if not _PART.fullmatch(part):
            raise CheckpointError(f"{index} names {part[:80]!r}, which is no file of the folder")
        if not os.path.lexists(path):
            raise FileNotFoundError(f"{path} is missing; {INDEX} there names it")
        found = read_safetensors(path)
        listed = {name for name, place in places.items() if place == part}
        if set(found) != listed:
            odd = sorted(set(found) ^ listed)[0]
            raise CheckpointError(f"{path} and {INDEX} there do not agree on the tensor {odd}")
        tensors.update(found)
    return tensors
