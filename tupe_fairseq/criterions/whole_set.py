"""Metrics over a whole validation set.

fairseq averages metrics over batches, which is wrong for MCC, F1 and correlations.
"""

import math

import numpy as np
import torch
import torch.distributed as dist
from fairseq.criterions import FairseqCriterion
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import metrics
from fairseq.logging.meters import MetersDict
from fairseq.utils import safe_getattr
from torch import Tensor

from tupe_fairseq.kinds import Kind

# a key of logging outputs, and the meter's name; fairseq does not log names that begin with _
ROWS = "_rows"
METRICS_HELP = "comma-separated metrics over the validation set, such as {}"
WEIGHTS_HELP = (
    "comma-separated weights in the loss, one for each class in the order of label/dict.txt; with "
    "--multilabel, for rows that have the label; default 1 each"
)


def parse_metrics(cfg, text: str, kind: Kind, labels: list[str]) -> list[str]:
    """The names in --metrics, and accuracy if the kind has it.

    Refuses a --best-checkpoint-metric that is not one of them.
    """
    from tupe_fairseq.data.metrics import METRICS, check_metrics

    names = list(dict.fromkeys(text.split(",")))
    check_metrics(names, kind, labels, f"--metrics {text}")
    names += ["accuracy"] * ("accuracy" in kind.metrics and "accuracy" not in names)
    best = cfg._get_root().get("checkpoint", {}).get("best_checkpoint_metric")
    if best in METRICS and best not in names:
        raise ValueError(f"--best-checkpoint-metric {best} is not one of --metrics {text}")
    return names


def parse_weights(text: str | None, labels: list[str]) -> Tensor | None:
    """The weights of --class-weights, float32 (C)."""
    if not text:
        return None
    try:
        weights = [float(word) for word in text.split(",")]
    except ValueError:
        weights = []
    if len(weights) != len(labels) or not all(0 < weight < math.inf for weight in weights):
        raise ValueError(
            f"--class-weights {text}: must be {len(labels)} numbers above 0, for "
            f"{', '.join(labels) or 'scores'}"
        )
    return torch.tensor(weights)


class RowsMeter(MetersDict._DerivedMeter):
    """Predictions and targets of a validation set, by row and sample.

    A derived meter, because fairseq does not save these in checkpoints.
    """

    def __init__(self):
        super().__init__(fn=None)
        self.samples = {}

    def update(self, places, predictions, targets):
        # a process that has no batch left repeats one
        self.samples.update(zip(places, zip(predictions, targets)))

    def percentage(self, name: str) -> float:
        from tupe_fairseq.data.metrics import task_metrics

        rows = {}
        for row, sample in sorted(self.samples):
            sides = self.samples[row, sample]
            # the tags of all windows of a sentence
            rows[row] = [a + b for a, b in zip(rows[row], sides)] if row in rows else sides
        return 100 * task_metrics([name], *zip(*rows.values()))[name] if len(rows) > 1 else math.nan


def _log(names, rows):
    metrics.log_custom(RowsMeter, ROWS, *rows)
    for name in names:
        metrics.log_derived(name, lambda meters, name=name: meters[ROWS].percentage(name))


class WholeSetCriterion(FairseqCriterion):
    """The mean loss of the task's kind over ``sample_size``, such as cross-entropy for classes.

    Training logs loss, in bits (that of scores as squared error), and accuracy; validation logs
    metrics over the whole set, in percent.
    """

    def __init__(self, cfg, task, names: str):
        super().__init__(task)
        self.classification_head_name = cfg.classification_head_name
        self.metric_names = parse_metrics(cfg, names, task.kind, task.labels)
        self.class_weights = parse_weights(safe_getattr(cfg, "class_weights"), task.labels)
        self.loss_unit = math.log(2) if task.labels else 1.0

    def forward(self, model, sample, reduce=True):
        logits, kind = self.logits(model, sample), self.task.kind
        targets = model.get_targets(sample, [logits])
        weights = None if self.class_weights is None else self.class_weights.to(logits.device)
        loss, size = kind.loss(logits, targets, weights), len(targets)
        output = {"loss": loss.data / self.loss_unit, "sample_size": size}
        output |= {name: sample[name] for name in ("ntokens", "nsentences")}
        if not self.training:
            sides = [kind.decide(logits.detach().cpu().numpy()), targets.cpu().numpy()]
            if kind.of_words:
                ends = sample["net_input"]["word_starts"].sum(1).cumsum(0).tolist()[:-1]
                sides = [np.split(side, ends) for side in sides]
            sides = [list(kind.measured(side, self.task)) for side in sides]
            places = zip(sample["row"].tolist(), sample["id"].tolist())
            self.log_rows(output, list(places), *sides)
        elif "accuracy" in kind.metrics:
            output["num_correct"] = (logits.argmax(dim=1) == targets).sum()
        return loss, size, output

    def logits(self, model, sample) -> Tensor:
        """The outputs of the head, float32."""
        if "target" not in sample:
            raise ValueError("the split has no labels; predict on it instead of validating")
        name = self.classification_head_name
        logits, _ = model(**sample["net_input"], features_only=True, classification_head_name=name)
        return logits.float()

    def log_rows(self, logging_output: dict, *rows) -> None:
        """Keep a validation batch for ``reduce_metrics``; with several processes, log all now.

        ``rows`` are the arguments of ``RowsMeter.update``.
        """
        if distributed_utils.get_data_parallel_world_size() == 1:
            logging_output[ROWS] = (self.metric_names, rows)
            return
        # the trainer can only sum the outputs of processes
        gathered = [None] * distributed_utils.get_data_parallel_world_size()
        dist.all_gather_object(gathered, rows, group=distributed_utils.get_data_parallel_group())
        for part in gathered:
            _log(self.metric_names, part)

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        size = sum(output.get("sample_size", 0) for output in logging_outputs)
        loss = sum(output.get("loss", 0) for output in logging_outputs)
        metrics.log_scalar("loss", loss / size, size, round=3)
        for output in logging_outputs:
            if ROWS in output:
                _log(*output[ROWS])
        if any("num_correct" in output for output in logging_outputs):  # of training batches
            correct = sum(output.get("num_correct", 0) for output in logging_outputs)
            metrics.log_scalar("accuracy", 100.0 * correct / size, size, round=1)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
