"""The numbers of a finished run by name, as tables and claims take them."""

from statistics import fmean
from typing import Any

from tupe_fairseq.compare.readouts import PAIRS

LOSS = "loss"


def measures(run: dict[str, Any]) -> dict[str, float]:
    """What a run has of each.

    Args:
        run (dict): a finished one, of :func:`tupe_fairseq.compare.finished_runs.finished`.
    Returns:
        dict: ``loss``, the final one, in bits; ``pairs`` and ``pairs/PHENOMENON``, the pairs that
        are ranked right, in percent; ``CoLA/cls`` and the like, the task's metric x 100, the mean
        over the fine-tuning seeds.  What a run does not have is left out; a diverged one has none.
    """
    if run["diverged"] is not None:
        return {}
    found = {LOSS: run["final_loss"]}
    readouts = run.get("readouts")
    if readouts is None:
        return found
    if readouts[PAIRS] is not None:
        found[PAIRS] = 100 * readouts[PAIRS]["accuracy"]
        for name, share in readouts[PAIRS]["phenomena"].items():
            found[f"{PAIRS}/{name}"] = 100 * share
    for name, one in readouts["tasks"].items():
        found[name] = 100 * fmean(one["scores"])
    return found
