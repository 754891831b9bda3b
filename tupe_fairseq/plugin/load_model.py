"""A trained model and its vocabulary, read without running anything that the file contains."""

import argparse
import os
from typing import List, Optional, Tuple

from fairseq.data import Dictionary, data_utils
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from torch import Tensor

from tupe_fairseq.checkpoint.options import options_in
from tupe_fairseq.checkpoint.restricted_load import CheckpointError, restricted_load
from tupe_fairseq.models.tupe_roberta import TupeRobertaModel

# Options of a run that say nothing about what the model computes, and may not serve here.
_HERE = {
    "attn_impl": "auto",
    "checkpoint_activations": False,
    "compile_layers": False,
    "offload_activations": False,
    "tensorboard_logdir": None,
}


def load_model(path: str, data: str) -> Tuple[TupeRobertaModel, Dictionary]:
    """A checkpoint's model in evaluation mode on the CPU, without classification heads.

    Args:
        path (str): a checkpoint of tupe_roberta, pre-trained or fine-tuned.
        data (str): the folder with its dict.txt, or input0/dict.txt.
    Raises:
        FileNotFoundError: if the checkpoint or dict.txt is not there.
        CheckpointError: if the file is refused, damaged, or not of tupe_roberta.
        ValueError: if dict.txt is not the checkpoint's.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path} is no file; give a checkpoint of tupe_roberta")
    state = restricted_load(path)
    options = options_in(state, path)
    arch = str(options.get("arch"))
    if not arch.startswith("tupe_roberta"):
        raise CheckpointError(
            f"{path} is a checkpoint of {arch}, not of tupe_roberta; tupe-convert makes one of a "
            "stock RoBERTa's, or of the TUPE authors'"
        )
    dictionary = _dictionary(path, data)
    task = MaskedLMTask(
        MaskedLMConfig(data=data, tokens_per_sample=int(options["max_positions"])), dictionary
    )
    model = TupeRobertaModel.build_model(argparse.Namespace(**{**options, **_HERE}), task)
    try:
        model.load_state_dict(state["model"])
    except (RuntimeError, ValueError) as error:
        raise CheckpointError(f"{path} does not load: {error}") from error
    return model.eval(), dictionary


def _dictionary(path: str, data: str) -> Dictionary:
    for name in ("dict.txt", os.path.join("input0", "dict.txt")):
        if os.path.isfile(os.path.join(data, name)):
            return Dictionary.load(os.path.join(data, name))
    raise FileNotFoundError(
        f"{os.path.join(data, 'dict.txt')} is missing; give --data, the folder that {path} was "
        "trained with"
    )


def valid_sentences(data: str, dictionary: Dictionary, most: int) -> Optional[List[Tensor]]:
    """The first sentences of a data folder's valid split; None where it has none.

    Shape:
        token ids (L) each, with </s>.
    """
    dataset = data_utils.load_indexed_dataset(os.path.join(data, "valid"), dictionary)
    if dataset is None:
        return None
    return [dataset[n].long() for n in range(min(len(dataset), most))]
