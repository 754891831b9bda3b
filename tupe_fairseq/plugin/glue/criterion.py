"""fairseq's sentence_prediction criterion, with GLUE's metrics over the whole validation set."""

from dataclasses import dataclass, field

import torch
import torch.distributed as dist
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.criterions.sentence_prediction import (
    SentencePredictionConfig,
    SentencePredictionCriterion,
)
from fairseq.dataclass import ChoiceEnum
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import metrics
from fairseq.logging.meters import MetersDict
from omegaconf import MISSING

from tupe_fairseq.glue.glue_tasks import GLUE_TASKS
from tupe_fairseq.plugin.glue.task import class_names

# fairseq does not log meters whose names begin with an underscore
ROWS = "_glue_rows"


def logged_metrics(task):
    """The metric names logged in a GLUE task's validation; for classes always with accuracy."""
    names = [*task.metrics, task.selection, *([] if task.is_regression else ["accuracy"])]
    return list(dict.fromkeys(names))


class RowsMeter(MetersDict._DerivedMeter):
    """Collects the rows of a validation set by their numbers, each with the latest prediction.

    fairseq makes a new one for each validation, and keeps one for all of them. Derived
    meters are not saved in checkpoints, which can load only fairseq's own.
    """

    def __init__(self):
        super().__init__(fn=None)  # never called: see ROWS
        self.rows = {}

    def update(self, ids, predictions, targets):
        # a worker without a batch left repeats one
        self.rows.update(zip(ids, zip(predictions, targets)))

    def percentage(self, name: str) -> float:
        """A metric over all rows, times 100; NaN for a single row."""
        # imported here, because pre-training does not need scikit-learn
        from tupe_fairseq.tasks.metrics import task_metrics

        if len(self.rows) < 2:
            return float("nan")
        return 100 * task_metrics([name], *zip(*self.rows.values()))[name]


@dataclass
class GlueCriterionConfig(SentencePredictionConfig):
    glue_task: ChoiceEnum(list(GLUE_TASKS)) = field(
        default=MISSING,
        metadata={"help": "the GLUE task whose metrics are computed over the validation set"},
    )


@register_criterion("glue_sentence_prediction", dataclass=GlueCriterionConfig)
class GlueSentencePredictionCriterion(SentencePredictionCriterion):
    """Cross-entropy, or squared error for a regression.

    Training logs loss and accuracy.  Validation logs what GLUE reports for the task, as
    unrounded percentages: mcc, f1, accuracy, acc_and_f1, pearson, spearman,
    pearson_and_spearman.

    Args:
        cfg (GlueCriterionConfig): the options.
        task (SentencePredictionTask): the task; its labels must be the GLUE task's.
    Raises:
        ValueError: if ``--regression-target``, ``--num-classes`` or the labels in their order
            are not the GLUE task's.
        ValueError: if one of fairseq's own ``--report-...`` flags was given.
    """

    def __init__(self, cfg, task):
        super().__init__(cfg, task)
        self.glue_task = GLUE_TASKS[str(cfg.glue_task)]
        _check_options(cfg, task, self.glue_task)

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
        targets = model.get_targets(sample, [logits]).view(-1)
        rows = targets.numel()
        logging_output = {"ntokens": sample["ntokens"], "nsentences": rows, "sample_size": rows}
        if self.regression_target:
            predictions = logits.view(-1).float()
            loss = F.mse_loss(predictions, targets.float(), reduction="sum")
        else:
            predictions = logits.argmax(dim=1)
            lprobs = F.log_softmax(logits, dim=-1, dtype=torch.float32)
            loss = F.nll_loss(lprobs, targets, reduction="sum")
        logging_output["loss"] = loss.data
        if self.training:
            if not self.regression_target:
                logging_output["hits"] = (predictions == targets).sum()
        else:
            collected = [t.tolist() for t in (sample["id"], predictions, targets)]
            if distributed_utils.get_data_parallel_world_size() == 1:
                logging_output["glue"] = (self.glue_task.name, collected)
            else:  # the trainer can only sum what workers log; its way of gathering needs a GPU
                for of_worker in _gather(collected):
                    _log_rows(self.glue_task.name, of_worker)
        return loss, rows, logging_output

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        """Log a batch that is spread over all workers."""
        SentencePredictionCriterion.reduce_metrics(logging_outputs)
        for log in logging_outputs:
            if "glue" in log:
                _log_rows(*log["glue"])
        if any("hits" in log for log in logging_outputs):
            hits = sum(log.get("hits", 0) for log in logging_outputs)
            rows = sum(log.get("nsentences", 0) for log in logging_outputs)
            metrics.log_scalar("accuracy", 100.0 * hits / rows, rows, round=1)


def _gather(collected):
    group = distributed_utils.get_data_parallel_group()
    gathered = [None] * distributed_utils.get_data_parallel_world_size()
    dist.all_gather_object(gathered, collected, group=group)
    return gathered


def _log_rows(glue_task, collected):
    metrics.log_custom(RowsMeter, ROWS, *collected)
    for name in logged_metrics(GLUE_TASKS[glue_task]):
        metrics.log_derived(name, _percentage(name))


def _percentage(name):
    return lambda meters: meters[ROWS].percentage(name)


def _check_options(cfg, task, glue_task):
    name = glue_task.name
    for option in cfg:
        if option.startswith("report_") and cfg[option]:
            raise ValueError(
                f"--{option.replace('_', '-')} has no effect with --glue-task {name}, "
                "which reports the task's own metrics; drop it"
            )
    if cfg.regression_target != glue_task.is_regression:
        raise ValueError(
            f"--glue-task {name} is a "
            + (
                "regression: pass --regression-target"
                if glue_task.is_regression
                else "classification: drop --regression-target"
            )
        )
    if task.cfg.num_classes != glue_task.num_classes:
        raise ValueError(
            f"--num-classes is {task.cfg.num_classes}; --glue-task {name} needs "
            f"{glue_task.num_classes}"
        )
    if not glue_task.is_regression:
        classes = tuple(class_names(task.label_dictionary))
        if classes != glue_task.labels:
            raise ValueError(
                f"the classes of {task.cfg.data} are {', '.join(classes)}; --glue-task {name} "
                f"has {', '.join(glue_task.labels)}, in this order, in label/dict.txt"
            )
