"""Loads a trained model and its vocabulary without running code from the checkpoint."""

import argparse
import os
from typing import Tuple

from fairseq.data import Dictionary
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from tupe_fairseq.checkpoint.checked_options import checked_options
from tupe_fairseq.checkpoint.checked_tensors import check_finite, check_sizes, tensors_in
from tupe_fairseq.checkpoint.contents import options_in
from tupe_fairseq.checkpoint.restricted_load import CheckpointError, restricted_load
from tupe_fairseq.files.names import DICTIONARY
from tupe_fairseq.models.tupe_roberta import TupeRobertaModel

# Options that change only how the model is computed, and may not work on this machine.
_HERE = {
    "attn_impl": "auto",
    "checkpoint_activations": False,
    "compile_layers": False,
    "offload_activations": False,
}


def load_model(path: str, data: str) -> Tuple[TupeRobertaModel, Dictionary]:
    """A checkpoint's model in evaluation mode on the CPU, without classification heads.

    Args:
        path (str): a checkpoint of tupe_roberta, pre-trained or fine-tuned.
        data (str): the folder with its dict.txt, or input0/dict.txt.
    Raises:
        FileNotFoundError: if the checkpoint or dict.txt is missing.
        CheckpointError: if the file is refused, damaged, or not of tupe_roberta.
        ValueError: if dict.txt is not the checkpoint's.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path} is not a file; give a checkpoint of tupe_roberta")
    state = restricted_load(path)
    options = checked_options(options_in(state, path), path)
    tensors = tensors_in(state, path)
    check_sizes(options, tensors, path)
    check_finite(tensors, path)
    dictionary = _dictionary(path, data)
    length = options.get("max_positions")
    if length is None:
        raise CheckpointError(f"{path} is refused: it has no option max_positions")
    task = MaskedLMTask(MaskedLMConfig(data=data, tokens_per_sample=length), dictionary)
    try:
        model = TupeRobertaModel.build_model(argparse.Namespace(**{**options, **_HERE}), task)
        model.load_state_dict(tensors)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be loaded: {error}") from error
    return model.eval(), dictionary


def _dictionary(path: str, data: str) -> Dictionary:
    for name in (DICTIONARY, os.path.join("input0", DICTIONARY)):
        found = os.path.join(data, name)
        if os.path.isfile(found):
            try:
                return Dictionary.load(found)
            except Exception as error:  # fairseq raises this very class, among others
                reason = " ".join(str(error).split())
                raise ValueError(f"{found} is not a dictionary of fairseq's: {reason}") from error
    raise FileNotFoundError(
        f"{os.path.join(data, 'dict.txt')} is missing; give --data, the folder that {path} was "
        "trained with"
    )
