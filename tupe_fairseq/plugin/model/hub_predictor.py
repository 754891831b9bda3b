"""Predictions of a fine-tuned model of fairseq's hub interface."""

import functools
from typing import Any, Callable, Dict, List, Sequence

from fairseq.utils import safe_getattr

from tupe_fairseq.labelled.described_task import described_task
from tupe_fairseq.labelled.task_description import TAGGING, Task
from tupe_fairseq.labelled.trained_kind import check_kind, trained_kind
from tupe_fairseq.plugin.model.mean_pooling_head import head_outputs
from tupe_fairseq.prediction.batches import BATCH_TOKENS, BATCH_TOKENS_ON_GPU
from tupe_fairseq.prediction.predictor import predictor
from tupe_fairseq.prediction.row_predictions import answers
from tupe_fairseq.text.found_vocabulary import find_dictionary
from tupe_fairseq.text.to_tokens import open_vocabulary

_OPTIONS = ("regression_target", "multilabel")


def hub_predictor(hub: Any) -> Callable[[Sequence[Any]], List[Dict[str, Any]]]:
    """What predicts for texts; see :meth:`TupeRobertaHub.predict_texts`.

    Args:
        hub (TupeRobertaHub): with ``places``.
    Raises:
        OSError, ValueError: as there.
    """
    if hub.training:
        raise ValueError(
            "the model is in training mode, where dropout makes every prediction different; call "
            "eval() first"
        )
    head, kind = _head(hub), _kind(hub)
    task = described_task(hub.places)
    check_kind("the checkpoint", kind, head.out_proj.out_features, task)
    encoder = hub.model.encoder.sentence_encoder
    symbols, dictionary = hub.task.source_dictionary.symbols, find_dictionary(hub.places)
    choices = "the folder that from_pretrained is given"
    to_tokens = open_vocabulary(symbols, hub.places, dictionary, None, True, choices)
    batch_tokens = BATCH_TOKENS if hub.device.type == "cpu" else BATCH_TOKENS_ON_GPU
    outputs = functools.partial(head_outputs, head)
    run = predictor(task, to_tokens, encoder, outputs, batch_tokens, encoder.config.unpad)
    names = answers(task).names

    def predict(texts: Sequence[Any]) -> List[Dict[str, Any]]:
        found, _ = run([_texts(one, task) for one in texts])
        return [dict(zip(names, values)) for values in found]

    return predict


def _head(hub: Any) -> Any:
    heads = hub.model.classification_heads
    name = safe_getattr(hub.task.cfg, "classification_head_name")
    if name not in heads and len(heads) == 1:
        (name,) = heads
    if name not in heads:
        raise ValueError(
            f"the model has {len(heads)} classification heads, and none is {name}; give a "
            "checkpoint that was fine-tuned"
        )
    return heads[name]


def _kind(hub: Any) -> str:
    options = {name: safe_getattr(hub.task.cfg, name) for name in _OPTIONS}
    return trained_kind({**options, "task": safe_getattr(hub.task.cfg, "_name")})


def _texts(given: Any, task: Task) -> List[str]:
    """What the model gets of a text, or a pair, or the words of a sentence."""
    texts = [given] if isinstance(given, str) else list(given)
    if task.kind != TAGGING and len(texts) != task.texts:
        raise ValueError(
            f"the model takes {task.texts} texts at a time, but {given!r:.80} is given"
        )
    return texts
