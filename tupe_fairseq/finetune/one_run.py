"""One run of the grid: train, predict the development set, score."""

import logging
import math
import os
from typing import Any, Callable, Dict, Optional

import numpy as np

from tupe_fairseq.checkpoint.restricted_load import restricted_load
from tupe_fairseq.files.atomic import atomic_write, write_json
from tupe_fairseq.finetune.experiment import Experiment
from tupe_fairseq.finetune.grid import Run
from tupe_fairseq.finetune.scores import metric_names
from tupe_fairseq.finetune.training import train
from tupe_fairseq.glue.metrics import glue_metrics
from tupe_fairseq.training.checkpoints import BEST, LAST, discard_damaged, updates_of
from tupe_fairseq.training.process import Diverged
from tupe_fairseq.training.words import as_shell

logger = logging.getLogger("tupe-finetune")


def finetune(
    experiment: Experiment, run: Run, on_score: Callable[[int, float], None], lock: Optional[int]
) -> Dict[str, Any]:
    """Train, or go on with an interrupted training, and write predictions and result.json.

    Args:
        experiment (Experiment): what to train on what.
        run (Run): learning rate and seed.
        on_score (callable): called with epoch and score after each validation.
        lock (int or None): a descriptor that the training process is to hold.
    Returns:
        dict: the content of result.json.
    Raises:
        ValueError: if fairseq-train fails, loads nothing or only part of the model, makes another
            number of updates, or records another score than the predictions have.
    """
    os.makedirs(experiment.path(run), exist_ok=True)
    command = experiment.command(run)
    with atomic_write(experiment.path(run, "command.sh")) as file:
        file.write(f"# {experiment.data.task.name}, {run.name}\n{as_shell(command)}\n")
    discard_damaged(experiment.path(run))
    result = {
        "run": run.name,
        "lr": run.lr_text,
        "seed": run.seed,
        "pretrained": experiment.options.pretrained,
        "updates": None,
        "diverged": None,
        "metrics": None,
    }
    try:
        loaded = train(
            command,
            experiment.path(run, "train.log"),
            on_score,
            experiment.data.task.selection,
            lock,
        )
        if experiment.options.pretrained:
            _check_loaded(loaded, experiment.path(run, "train.log"))
            logger.info("%s: %s", run.name, loaded)
        result["updates"] = _updates(experiment, run)
        result["metrics"] = _score(experiment, run)
    except Diverged as error:
        logger.warning("%s diverged: %s", run.name, error)
        result["diverged"] = str(error)
    write_json(experiment.path(run, "result.json"), result)
    return result


def _check_loaded(loaded: Optional[str], log_path: str) -> None:
    """Whatever fairseq thinks: only the new head may begin at random."""
    if loaded is None:
        raise ValueError(f"no tensor was loaded from --checkpoint; see {log_path}")
    names = loaded.partition("newly initialized: ")[2].partition(";")[0].split(", ")
    other = [
        name
        for name in names
        if name != "none"
        and not name.startswith("classification_heads.")
        # not weights: what a checkpoint of before did not record yet
        and not name.endswith("_version")
    ]
    if other:
        raise ValueError(f"only part of --checkpoint was loaded, not {', '.join(other)}")


def _updates(experiment: Experiment, run: Run) -> int:
    updates = updates_of(experiment.path(run, LAST))
    planned = experiment.options.updates(experiment.data.rows["train"])
    # in fp16 an update whose gradients overflow is left out
    if updates > planned or (updates < planned and not experiment.options.fp16):
        raise ValueError(
            f"{run.name} made {updates} updates, and its learning rate was planned for {planned}"
        )
    return updates


def _score(experiment: Experiment, run: Run) -> Dict[str, Dict[str, float]]:
    task = experiment.data.task
    best = experiment.path(run, BEST)
    if not os.path.exists(best):
        raise Diverged("no validation had a score that is a number")
    metrics = {}
    for split in experiment.data.splits("valid"):
        predictions, targets = experiment.predict(best, split), experiment.data.targets(split)
        if not np.isfinite(predictions).all():
            raise Diverged("predictions are no numbers")
        path = experiment.path(run, f"predictions-{split}.tsv")
        with atomic_write(path) as file:
            file.write("prediction\ttarget\n")
            for row in zip(predictions.tolist(), targets.tolist()):
                words = row if task.is_regression else (task.labels[index] for index in row)
                file.write("\t".join(map(str, words)) + "\n")
        metrics[split] = glue_metrics(metric_names(task), predictions, targets)
    _check_recorded(experiment, run, metrics["valid"][task.selection])
    return metrics


def _check_recorded(experiment: Experiment, run: Run, found: float) -> None:
    """The score by which fairseq picked the checkpoint is the score of its predictions."""
    metric = experiment.data.task.selection
    recorded = restricted_load(experiment.path(run, BEST))["extra_state"]["best"] / 100
    # half precision moves the rows in doubt to the other class; otherwise one at most
    tolerance = (0.03 if experiment.options.fp16 else 1e-3) + 1 / experiment.data.rows["valid"]
    if not math.isclose(found, recorded, rel_tol=0, abs_tol=tolerance):
        raise ValueError(
            f"{run.name}: the best checkpoint's predictions have {metric} {found:.4f}, and "
            f"fairseq recorded {recorded:.4f}"
        )


def free_disk(experiment: Experiment, run: Run, keep_best: bool) -> None:
    """Remove the checkpoints of a finished run that nothing needs any more."""
    for name in (LAST, *(() if keep_best else (BEST,))):
        if os.path.exists(experiment.path(run, name)):
            os.remove(experiment.path(run, name))
