"""Metrics over all rows of a validation set, which fairseq's own meters average over batches."""

from typing import Any, Dict, Iterable, List, Sequence, Tuple

import torch.distributed as dist
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import metrics
from fairseq.logging.meters import MetersDict

#: in logging outputs; and the meter, which fairseq does not log, as its name begins so
ROWS = "_rows"


class RowsMeter(MetersDict._DerivedMeter):
    """Collects the rows of a validation set by their numbers, each with the latest prediction.

    fairseq makes a new one for each validation, and keeps one for all of them. Derived
    meters are not saved in checkpoints, which can load only fairseq's own.
    """

    def __init__(self):
        super().__init__(fn=None)  # never called: see ROWS
        self.rows: Dict[Any, Tuple[Any, Any]] = {}

    def update(self, ids, predictions, targets):
        # a worker without a batch left repeats one
        self.rows.update(zip(ids, zip(predictions, targets)))

    def pairs(self) -> Iterable[Tuple[Any, Any]]:
        """Prediction and target of each row."""
        return self.rows.values()

    def percentage(self, name: str) -> float:
        """A metric over all rows, times 100; NaN for a single row."""
        # imported here, because pre-training does not need scikit-learn
        from tupe_fairseq.labelled.metrics import task_metrics

        pairs = list(self.pairs())
        if len(pairs) < 2:
            return float("nan")
        return 100 * task_metrics([name], *zip(*pairs))[name]


class SentencesMeter(RowsMeter):
    """A :class:`RowsMeter` of parts of sentences, which are joined in their order.

    Its ids are pairs of numbers, of the sentence and of the part; predictions and targets are lists
    of tags.
    """

    def pairs(self) -> Iterable[Tuple[List[str], List[str]]]:
        joined: Dict[int, Tuple[List[str], List[str]]] = {}
        for sentence, part in sorted(self.rows):
            predictions, targets = self.rows[sentence, part]
            whole = joined.setdefault(sentence, ([], []))
            whole[0].extend(predictions)
            whole[1].extend(targets)
        return joined.values()


def note_rows(
    logging_output: Dict[str, Any], names: Sequence[str], rows: Sequence[list], meter=RowsMeter
) -> None:
    """Note a validated batch for :func:`log_noted_rows`, or log that of all workers at once.

    Args:
        logging_output (dict): of the batch.
        names (sequence of str): the metrics.
        rows (sequence of lists): ids, predictions and targets.
        meter (type): what collects them.
    """
    if distributed_utils.get_data_parallel_world_size() == 1:
        logging_output[ROWS] = (meter, names, rows)
    else:  # the trainer can only sum what workers log; its way of gathering needs a GPU
        for of_worker in _gather(rows):
            _log_rows(meter, names, of_worker)


def log_noted_rows(logging_outputs: Sequence[Dict[str, Any]]) -> None:
    """Log what :func:`note_rows` noted."""
    for log in logging_outputs:
        if ROWS in log:
            _log_rows(*log[ROWS])


def _gather(rows):
    group = distributed_utils.get_data_parallel_group()
    gathered = [None] * distributed_utils.get_data_parallel_world_size()
    dist.all_gather_object(gathered, rows, group=group)
    return gathered


def _log_rows(meter, names, rows):
    metrics.log_custom(meter, ROWS, *rows)
    for name in names:
        metrics.log_derived(name, _percentage(name))


def _percentage(name):
    return lambda meters: meters[ROWS].percentage(name)
