"""How many passes over the training set, unless --epochs says it."""

import math

from tupe_fairseq.labelled.task_description import Task

#: with fewer updates a new head is hardly trained; with more passes a small set is learned by heart
FEWEST_UPDATES, MOST_EPOCHS = 300, 50


def default_epochs(task: Task, updates_per_epoch: int) -> int:
    """The description's epochs; of one's own small data more, for as many updates as are needed.

    Args:
        task (Task): the task; a benchmark has a protocol of its own.
        updates_per_epoch (int): 1 or more.
    """
    if task.benchmark:
        return task.epochs
    needed = math.ceil(FEWEST_UPDATES / updates_per_epoch)
    return max(task.epochs, min(needed, MOST_EPOCHS))
