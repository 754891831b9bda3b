"""Reading a checkpoint from a stranger: torch.load with a pickle that can run nothing.

The files of the TUPE authors' day hold objects of modules that exist nowhere today, and torch's
own ``weights_only=True`` is missing or without exceptions before torch 2.4, so the unpickler is
ours: tensors, containers and ``argparse.Namespace`` are rebuilt, a few known kinds of training
statistics become empty placeholders, and anything else is refused before it is imported.
"""

import argparse
import collections
import pickle
import zipfile
from typing import Any, Dict

import torch

_REBUILT = {
    ("argparse", "Namespace"): argparse.Namespace,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch", "Size"): torch.Size,
    ("torch._utils", "_rebuild_parameter"): torch._utils._rebuild_parameter,
    ("torch._utils", "_rebuild_tensor"): torch._utils._rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): torch._utils._rebuild_tensor_v2,
    **{
        ("torch", f"{kind}Storage"): getattr(torch, f"{kind}Storage")
        for kind in ("BFloat16", "Bool", "Byte", "Double", "Float", "Half", "Int", "Long")
    },
}
_PLACEHOLDERS = {
    ("fairseq.meters", "AverageMeter"),
    ("fairseq.meters", "StopwatchMeter"),
    ("fairseq.meters", "TimeMeter"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "scalar"),
}


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message says why."""


class Placeholder:
    """Stands for an object whose class is not imported."""

    def __init__(self, *args):
        pass

    def __setstate__(self, state):
        pass


class _RefusedGlobal(pickle.UnpicklingError):
    pass


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) in _REBUILT:
            return _REBUILT[module, name]
        if (module, name) in _PLACEHOLDERS:
            return Placeholder
        raise _RefusedGlobal(f"it asks for {module}.{name}, which no checkpoint needs")


class _RestrictedPickle:
    """What torch.load takes as a pickle module."""

    __name__ = "restricted_pickle"
    Unpickler = Unpickler
    UnpicklingError = pickle.UnpicklingError

    @staticmethod
    def load(file, **kwargs):
        return Unpickler(file, **kwargs).load()


def restricted_load(path: str) -> Dict[str, Any]:
    """Read a checkpoint onto the CPU without running anything that it contains.

    Args:
        path (str): file in torch's zip or pre-1.6 format.
    Returns:
        dict: its contents; objects of known statistics classes are ``Placeholder``.
    Raises:
        FileNotFoundError: if there is no such file.
        CheckpointError: if it asks for any other code, is damaged, or is not a dict.
    """
    with open(path, "rb") as file:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                if any(name.endswith("constants.pkl") for name in archive.namelist()):
                    raise CheckpointError(f"{path} is a TorchScript program, not a checkpoint")
            file.seek(0)
        try:
            state = torch.load(file, map_location="cpu", pickle_module=_RestrictedPickle)
        except _RefusedGlobal as error:
            raise CheckpointError(f"{path} is refused: {error}") from error
        except Exception as error:  # a damaged pickle can raise anything
            raise CheckpointError(
                f"{path} is truncated, damaged or no checkpoint ({type(error).__name__}: {error})"
            ) from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} holds a {type(state).__name__}, not a checkpoint")
    return state
