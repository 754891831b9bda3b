"""How far two trainings are from each other."""

import sys
from pathlib import Path
from typing import Dict, NamedTuple

import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "soak"))

import results  # noqa: E402

#: the last digit that fairseq logs, which rounding can change
LOSSES = 1.1e-3
#: sums in another order differ in the last bits, some 1e-7 of a weight or of a gradient; an update
#: of Adam is at most the rate, 1e-3, so that it differs by 1e-10, and where a gradient cancels to
#: nothing but rounding (1e-9, as keys' biases), by 1e-3 * 1e-9 / adam_eps = 1e-6 at the worst
EARLY, LATE = 2e-6, 1e-5


class Trained(NamedTuple):
    """What a training leaves.

    Args:
        losses (dict): those that it logged, of training and validation, by update.
        weights (dict): by number of updates and name.
    """

    losses: Dict[str, float]
    weights: Dict[int, Dict[str, torch.Tensor]]


class Distance(NamedTuple):
    """The largest absolute differences.

    Args:
        losses (float): of logged losses.
        early (float): of weights after 10 updates.
        late (float): of weights in the end.
    """

    losses: float
    early: float
    late: float

    def verdict(self) -> str:
        """The figures, and whether they are too large."""
        agrees = self.losses <= LOSSES and self.early <= EARLY and self.late <= LATE
        figures = f"losses {self.losses:.3f}, weights {self.early:.1e}, in the end {self.late:.1e}"
        return figures if agrees else f"FAILED: {figures}"


def trained(save_dir: Path, log: str) -> Trained:
    """Read the log and all checkpoints of a training."""
    losses = {}
    for kind, key in (("train_inner", "loss"), ("train", "train_loss"), ("valid", "valid_loss")):
        for record in results.records(log, kind):
            updates = record.get("num_updates") or record.get(f"{kind}_num_updates")
            losses[f"{kind} at {updates}"] = float(record[key])
    weights = {}
    for path in save_dir.glob("checkpoint*.pt"):
        # weights_only: false, as a command of ours has written it a moment ago
        state = torch.load(path, map_location="cpu", weights_only=False)
        model = {name: x for name, x in state["model"].items() if x.is_floating_point()}
        weights[state["optimizer_history"][-1]["num_updates"]] = model
    return Trained(losses, weights)


def distance(one: Trained, other: Trained) -> Distance:
    """Compare all that both must have.

    Raises:
        ValueError: if one of them lacks something, or has something that is no number.
    """
    missing = set(one.losses) ^ set(other.losses)
    if missing or not one.losses or set(one.weights) != set(other.weights) or len(one.weights) < 5:
        raise ValueError(
            f"not the same updates: {sorted(missing)[:6]}, {sorted(one.weights)}, "
            f"{sorted(other.weights)}"
        )
    if furthest(one.weights[min(one.weights)], one.weights[max(one.weights)]) < 0.01:
        raise ValueError("has not learned anything")
    losses = max(abs(one.losses[name] - other.losses[name]) for name in one.losses)
    by_update = {n: furthest(one.weights[n], other.weights[n]) for n in sorted(one.weights)}
    return Distance(losses, by_update[min(by_update)], by_update[max(by_update)])


def furthest(one: Dict[str, torch.Tensor], other: Dict[str, torch.Tensor]) -> float:
    """The largest absolute difference of weights.

    Raises:
        ValueError: if they are not the same tensors, or not finite.
    """
    if list(one) != list(other) or not all(x.isfinite().all() for x in one.values()):
        raise ValueError("not the same tensors, or not finite")
    return max((one[name] - other[name]).abs().max().item() for name in one)
