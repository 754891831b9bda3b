"""fairseq's sentence_prediction criterion, with metrics over the whole validation set."""

from dataclasses import dataclass, field
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.criterions.sentence_prediction import (
    SentencePredictionConfig,
    SentencePredictionCriterion,
)
from fairseq.dataclass import ChoiceEnum
from fairseq.logging import metrics

from tupe_fairseq.glue.glue_tasks import GLUE_TASKS
from tupe_fairseq.labelled.task_description import CLASSIFICATION, MULTILABEL, REGRESSION
from tupe_fairseq.plugin.glue.loss_flags import (
    METRICS_HELP,
    WEIGHTS_HELP,
    parse_metrics,
    parse_weights,
)
from tupe_fairseq.plugin.glue.rows_meter import log_noted_rows, note_rows
from tupe_fairseq.plugin.glue.task import class_names, kind_of


@dataclass
class GlueCriterionConfig(SentencePredictionConfig):
    glue_task: Optional[ChoiceEnum(list(GLUE_TASKS))] = field(
        default=None,
        metadata={
            "help": "the GLUE task whose metrics are computed over the validation set, and whose "
            "labels the data must have"
        },
    )
    metrics: Optional[str] = field(
        default=None, metadata={"help": f"instead of --glue-task: {METRICS_HELP}"}
    )
    class_weights: Optional[str] = field(default=None, metadata={"help": WEIGHTS_HELP})


@register_criterion("glue_sentence_prediction", dataclass=GlueCriterionConfig)
class GlueSentencePredictionCriterion(SentencePredictionCriterion):
    """Cross-entropy; squared error for a regression; binary cross-entropy for labels.

    The last is the mean over the labels, so that losses do not grow with their number.  With
    ``--class-weights`` the loss of a row is multiplied by the weight of its class, and that of a
    label which the row has by the label's weight; it is divided by the number of rows all the same.

    Training logs the loss and, of classes, the accuracy.  Validation logs the metrics of
    ``--metrics``, or what GLUE reports for ``--glue-task``, as unrounded percentages; of classes
    always with the accuracy.

    Args:
        cfg (GlueCriterionConfig): the options.
        task (SentencePredictionTask): the task; with ``--glue-task`` its labels must be those.
    Raises:
        ValueError: if not exactly one of ``--glue-task`` and ``--metrics`` was given.
        ValueError: if ``--regression-target``, ``--num-classes`` or the labels in their order
            are not the GLUE task's.
        ValueError: if a metric or the class weights are not for the task.
        ValueError: if one of fairseq's own ``--report-...`` flags was given.
    """

    def __init__(self, cfg, task):
        super().__init__(cfg, task)
        self.kind = kind_of(task.cfg)
        labels = [] if self.kind == REGRESSION else class_names(task.label_dictionary)
        self.metric_names = _metric_names(cfg, task, self.kind, labels)
        self.class_weights = parse_weights(cfg.class_weights, labels)

    def forward(self, model, sample, reduce=True):
        """The summed loss of a batch, its number of rows, and what is to be logged.

        Raises:
            ValueError: if the batch has no targets.
        """
        if "target" not in sample:
            raise ValueError("the split has no labels; predict on it instead of validating")
        logits, _ = model(
            **sample["net_input"],
            features_only=True,
            classification_head_name=self.classification_head_name,
        )
        targets = model.get_targets(sample, [logits])
        rows = len(targets)
        logging_output = {"ntokens": sample["ntokens"], "nsentences": rows, "sample_size": rows}
        weights = None if self.class_weights is None else self.class_weights.to(logits.device)
        if self.kind == REGRESSION:
            predictions, targets = logits.view(-1).float(), targets.view(-1)
            loss = F.mse_loss(predictions, targets.float(), reduction="sum")
        elif self.kind == MULTILABEL:
            predictions = logits > 0  # a probability above one half
            loss = F.binary_cross_entropy_with_logits(
                logits.float(), targets.float(), pos_weight=weights, reduction="sum"
            )
            loss = loss / logits.size(1)
        else:
            predictions, targets = logits.argmax(dim=1), targets.view(-1)
            lprobs = F.log_softmax(logits, dim=-1, dtype=torch.float32)
            loss = F.nll_loss(lprobs, targets, weights, reduction="sum")
        logging_output["loss"] = loss.data
        if self.training:
            if self.kind == CLASSIFICATION:
                logging_output["hits"] = (predictions == targets).sum()
        else:
            rows_of = [sample["id"].tolist(), *map(self._by_row, (predictions, targets))]
            note_rows(logging_output, self.metric_names, rows_of)
        return loss, rows, logging_output

    def _by_row(self, values):
        return list(values.cpu().numpy()) if self.kind == MULTILABEL else values.tolist()

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        """Log a batch that is spread over all workers."""
        SentencePredictionCriterion.reduce_metrics(logging_outputs)
        log_noted_rows(logging_outputs)
        if any("hits" in log for log in logging_outputs):
            hits = sum(log.get("hits", 0) for log in logging_outputs)
            rows = sum(log.get("nsentences", 0) for log in logging_outputs)
            metrics.log_scalar("accuracy", 100.0 * hits / rows, rows, round=1)


def _metric_names(cfg, task, kind, labels):
    """The metrics that validation logs."""
    if bool(cfg.glue_task) == bool(cfg.metrics):
        raise ValueError(
            "give exactly one of --glue-task and --metrics: the first has the metrics and labels "
            "of a task of GLUE, the second names metrics, such as accuracy,macro_f1"
        )
    given = f"--glue-task {cfg.glue_task}" if cfg.glue_task else f"--metrics {cfg.metrics}"
    for option in cfg:
        if option.startswith("report_") and cfg[option]:
            raise ValueError(
                f"--{option.replace('_', '-')} has no effect with {given}, "
                "which says what is reported; drop it"
            )
    if cfg.glue_task:
        glue_task = GLUE_TASKS[str(cfg.glue_task)]
        _check_labels(cfg, task, glue_task, labels)
        names = [*glue_task.metrics, glue_task.selection]
    else:
        names = parse_metrics(cfg.metrics, kind, labels)
    return list(dict.fromkeys([*names, *(["accuracy"] if kind == CLASSIFICATION else [])]))


def _check_labels(cfg, task, glue_task, labels):
    name = glue_task.name
    if cfg.regression_target != glue_task.is_regression:
        raise ValueError(
            f"--glue-task {name} is a "
            + (
                "regression: pass --regression-target"
                if glue_task.is_regression
                else "classification: drop --regression-target"
            )
        )
    if kind_of(task.cfg) == MULTILABEL:
        raise ValueError(f"--glue-task {name} has one label a row: drop --multilabel")
    if task.cfg.num_classes != glue_task.num_classes:
        raise ValueError(
            f"--num-classes is {task.cfg.num_classes}; --glue-task {name} needs "
            f"{glue_task.num_classes}"
        )
    if not glue_task.is_regression and tuple(labels) != glue_task.labels:
        raise ValueError(
            f"the classes of {task.cfg.data} are {', '.join(labels)}; --glue-task {name} "
            f"has {', '.join(glue_task.labels)}, in this order, in label/dict.txt"
        )
