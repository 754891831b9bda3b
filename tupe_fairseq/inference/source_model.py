"""A checkpoint to be exported: its tensors, its vocabulary, its head, and fairseq's hub on it."""

import os
from typing import Any, NamedTuple

from fairseq.data import Dictionary
from torch import Tensor

from tupe_fairseq.checkpoint.allowed_options import own_options
from tupe_fairseq.checkpoint.checkpoint import CheckpointError, read
from tupe_fairseq.checkpoint.state_dict import EMBEDDING, classification_heads
from tupe_fairseq.data.dictionary import DICTIONARY, read_dictionary
from tupe_fairseq.data.tokenizer import Tokenizer
from tupe_fairseq.export.folder_config import Head
from tupe_fairseq.files.names import FILLER, MASK
from tupe_fairseq.inference.hub import RecordedBpe, TupeRobertaHub
from tupe_fairseq.labelled.labels import label_of
from tupe_fairseq.labelled.task_description import CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING
from tupe_fairseq.models.tupe_roberta import TupeRobertaModel


class SourceModel(NamedTuple):
    """What an export is made of.

    Args:
        hub (TupeRobertaHub): what ``TupeRobertaModel.from_pretrained`` gives, with the vocabulary
            that was found.
        options (Namespace): of the model, presets applied.
        tensors (dict): the file's state dict.
        symbols (list of str): those of fairseq's dictionary, ``<mask>`` included.
        head (Head, optional): the classification head to export.
        other_heads (list of str): names of those that are left out.
        task (str): what the checkpoint was trained for last.
    """

    hub: TupeRobertaHub
    options: Any
    tensors: dict[str, Tensor]
    symbols: list[str]
    head: Head | None
    other_heads: list[str]
    task: str


def read_source(
    checkpoint: str,
    dictionary: str,
    vocabulary: Tokenizer,
    places: list[str],
    head: str | None = None,
    label_dict: str | None = None,
    padded: bool = False,
) -> SourceModel:
    """Read a checkpoint without running its code.

    Args:
        checkpoint (str): the file.
        dictionary (str): its dict.txt.
        vocabulary (Tokenizer): what splits text for it.
        places (list of str): folders in which the labels' dictionary may be.
        head (str, optional): the name of the classification head; needed if there are several.
        label_dict (str, optional): the labels' dictionary to use.
        padded (bool): allow words with which the dictionary was filled up.
    Raises:
        FileNotFoundError: if there is no such file.
        CheckpointError: if it is refused or damaged, or not of tupe_roberta.
        ValueError: if dictionary, head or labels do not fit.
    """
    contents = read(checkpoint)
    tensors = contents.tensors
    given = own_options(contents.options, tensors, checkpoint)
    _check_dictionary(dictionary, tensors[EMBEDDING].size(0), checkpoint, padded)
    chosen = _chosen_head(tensors, given, head, label_dict, places)
    hub = _hub(checkpoint, dictionary, vocabulary, given["max_positions"])
    names = [name for name in classification_heads(tensors) if chosen and name != chosen.name]
    return SourceModel(
        hub, hub.model.args, tensors, list(hub.task.source_dictionary.symbols), chosen, names,
        given.get("task", "masked_lm"),
    )  # fmt: skip


def _check_dictionary(path: str, rows: int, checkpoint: str, padded: bool) -> None:
    try:
        symbols = Dictionary.load(path).symbols
    except Exception as error:  # fairseq raises this very class, among others
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not a dictionary of fairseq's: {reason}") from error
    size = len(symbols) + (MASK not in symbols)
    if rows != size:
        raise ValueError(
            f"the word embedding of {checkpoint} has {rows} rows, and {path} with the built-in "
            f"symbols and <mask> {size}: the vocabulary was padded, or the dictionary is not the "
            "one that the checkpoint was trained with; give --data, the folder with that one"
        )
    fillers = [symbol for symbol in symbols if FILLER.fullmatch(symbol)]
    if fillers and not padded:
        raise ValueError(
            f"{path} was padded with {len(fillers)} words that no text has, such as {fillers[0]}; "
            "to export them as words of the vocabulary, give --padded-vocabulary"
        )


def _chosen_head(
    tensors: dict[str, Tensor],
    options: dict[str, Any],
    name: str | None,
    label_dict: str | None,
    places: list[str],
) -> Head | None:
    heads = classification_heads(tensors)
    if not heads:
        task = options.get("task", "masked_lm")
        if task not in ("masked_lm", "tupe_masked_lm"):
            raise CheckpointError(
                f"the checkpoint's task is {task}, but it has no classification head"
            )
        for flag, value in (("--head", name), ("--label-dict", label_dict)):
            if value:
                raise ValueError(
                    f"{flag} {value}: the checkpoint has no classification head; drop it"
                )
        return None
    if name is None and len(heads) > 1:
        raise ValueError(
            f"the checkpoint has {len(heads)} classification heads; give --head, one of "
            f"{', '.join(sorted(heads))}"
        )
    name = next(iter(heads)) if name is None else name
    if name not in heads:
        raise ValueError(
            f"--head {name} is not one of the checkpoint's: {', '.join(sorted(heads))}"
        )
    width = tensors[EMBEDDING].size(1)
    inner = tensors.get(f"classification_heads.{name}.dense.bias")
    if inner is not None and inner.size(0) != width:
        raise ValueError(
            f"classification head {name} has an inner width of {inner.size(0)}; only the model's "
            f"own, {width}, can be exported"
        )
    kind = _kind(options, heads[name]) if inner is not None else TAGGING
    return _labelled(name, heads[name], kind, label_dict, places)


def _kind(options: dict[str, Any], classes: int) -> str:
    if options.get("multilabel"):
        return MULTILABEL
    return REGRESSION if options.get("regression_target") or classes == 1 else CLASSIFICATION


def _labelled(name, classes, kind, label_dict, places) -> Head:
    if kind == REGRESSION:
        if classes != 1:
            raise CheckpointError(f"head {name} is for scores, but has {classes} outputs, not one")
        if label_dict:
            raise ValueError(f"--label-dict {label_dict}: head {name} gives scores; drop it")
        return Head(name, ["score"], kind)
    paths = [label_dict or os.path.join(place, "label", DICTIONARY) for place in places]
    path = next((path for path in paths if label_dict or os.path.isfile(path)), None)
    if path is None:
        return Head(name, [f"LABEL_{number}" for number in range(classes)], kind)
    labels = [
        label for label in read_dictionary(path) if label != MASK and not FILLER.fullmatch(label)
    ]
    if len(labels) != classes:
        raise ValueError(
            f"{path} lists {len(labels)} labels, but head {name} has {classes} classes; give "
            "--label-dict, the label/dict.txt that it was trained with"
        )
    return Head(name, list(map(label_of, labels)), kind)


def _hub(checkpoint: str, dictionary: str, vocabulary: Tokenizer, length: int) -> TupeRobertaHub:
    """The hub interface, of the task masked_lm: that of a head would need the data's labels."""
    folder, file = os.path.split(os.path.abspath(checkpoint))
    # what changes only how the model is computed, and may not work on this machine
    options = {
        "attn_impl": "auto", "checkpoint_activations": False, "compile_layers": False,
        "offload_activations": False, "unpad": False,
        "bpe": None, "task": "masked_lm", "tokens_per_sample": length, "user_dir": None,
    }  # fmt: skip
    data = os.path.dirname(os.path.abspath(dictionary))
    hub = TupeRobertaModel.from_pretrained(folder, file, data, **options)
    hub.bpe = RecordedBpe(vocabulary)
    return hub.eval()
