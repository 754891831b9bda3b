"""Builds a trained model from a file, which chooses nothing but sizes and switches.

fairseq's own way (``hub_utils.from_pretrained``, ``load_model_ensemble_and_task`` with a path)
builds whatever architecture and task the file names, and some of fairseq's pass texts of the file
to ``eval()``; and before torch 2.6 reading the file runs code already, before 2.10 it can corrupt
memory.  Here the restricted reader reads it, and fairseq is handed checked options and tensors
only.
"""

import os
from typing import Any, Dict

from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.models import ARCH_MODEL_INV_REGISTRY

from tupe_fairseq.checkpoint.checked_options import checked_options
from tupe_fairseq.checkpoint.checked_tensors import check_finite, check_sizes, tensors_in
from tupe_fairseq.checkpoint.contents import options_in
from tupe_fairseq.checkpoint.restricted_load import CheckpointError, restricted_load
from tupe_fairseq.plugin.model.loaded_config import loaded_config
from tupe_fairseq.programs.log import quiet
from tupe_fairseq.text.dictionary_file import listed_words


def restore(path: str, overrides: Dict[str, Any]):
    """A checkpoint's model, the config that built it, and its task.

    Args:
        path (str): a checkpoint of tupe_roberta.
        overrides (dict): options to use in place of the file's, which are not checked; ``data``,
            the folder with the dictionaries, must be among them.
    Returns:
        tuple: model, config and task, as fairseq's ``load_model_ensemble_and_task`` gives them.
    Raises:
        FileNotFoundError: if there is no such file.
        CheckpointError: if the file is refused, damaged, or not of tupe_roberta.
        ValueError: if the model cannot be built with these options, or a dict.txt is damaged.
    """
    state = restricted_load(path)
    given = options_in(state, path)
    chosen = {name: None for name in overrides if name in given}
    options = checked_options({**given, **chosen}, path)
    registered = ARCH_MODEL_INV_REGISTRY["tupe_roberta"]
    if options["arch"] not in registered:
        raise CheckpointError(
            f"{path} is refused: its arch is {options['arch']}, not one of {', '.join(registered)}"
        )
    tensors = tensors_in(state, path)
    check_sizes(options, tensors, path)
    check_finite(tensors, path)
    _check_dictionaries(overrides["data"])
    options = {"task": "masked_lm", **options, **overrides}
    # a file's criterion is used for nothing but the name and kind of the head, options by now
    options = {"criterion": options["task"], **options}
    # given a state, fairseq does not read the file again
    try:
        state = {"cfg": loaded_config(options), "model": tensors}
        # what a training logs says nothing here: the file has all tensors, or is refused
        with quiet("fairseq", "tupe_fairseq"):
            (model,), config, task = load_model_ensemble_and_task([path], state=state)
    except (OSError, ValueError):
        raise
    # whatever a file can lead to: fairseq raises a bare Exception for a dict.txt that is not
    # in UTF-8, and of tensors that do not fit torch says it in many lines
    except Exception as error:
        problem = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise CheckpointError(f"{path} cannot be loaded: {problem}") from error
    return model, config, task


def _check_dictionaries(data: str) -> None:
    """Refuse a dict.txt by name before fairseq reads it, which does not say which file it is."""
    for name in ("dict.txt", os.path.join("input0", "dict.txt")):
        path = os.path.join(data, name)
        if os.path.isfile(path):
            listed_words(path)
