"""The settings of a comparison, and the loss that token frequencies alone have on its data."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from tupe_fairseq.data.indexed import token_counts
from tupe_fairseq.files import file_sha256
from tupe_fairseq.runs import study


@dataclass(frozen=True, kw_only=True)
class Settings(study.Settings):
    """What the runs of a comparison share. Each validation writes a checkpoint."""

    data: str
    updates: int
    warmup_updates: int
    validate_every: int
    batch_size: int = 16
    tokens_per_sample: int = 128
    lr: float = 1e-3
    tune_lrs: tuple[float, ...] = ()
    tune_updates: int = 0

    def record(self) -> dict[str, Any]:
        """With hashes of the data instead of paths."""
        folders = self.data.split(":")
        first = [os.path.join(folders[0], name) for name in ("dict.txt", "valid.bin")]
        data: dict[str, Any] = {os.path.basename(path): file_sha256(path) for path in first}
        data["train.bin"] = [file_sha256(os.path.join(x, "train.bin")) for x in folders]
        lists = {name: list(getattr(self, name)) for name in ("train_flags", "tune_lrs")}
        return {**super().record(), **lists, "data": data}


def unigram_loss(data: str) -> float | None:
    """The loss of the training set's token frequencies on valid, in bits per token.

    One is added to each count. None for data in another format than fairseq-preprocess's default.
    """
    folders = data.split(":")
    try:
        parts = [token_counts(os.path.join(folder, "train")) for folder in folders]
        valid = token_counts(os.path.join(folders[0], "valid"))
    except ValueError:
        return None
    counts = np.ones(max(map(len, [*parts, valid])))
    for part in parts:
        counts[: len(part)] += part
    bits = np.log2(counts.sum()) - np.log2(counts[: len(valid)])
    return float(valid @ bits / valid.sum())
