"""The ways in which a checkpoint is loaded and used on a line."""

from pathlib import Path
from typing import Dict, List

import numpy as np
from fairseq.models.roberta import RobertaModel
from outputs import outputs
from trained_models import CLASSIFIER, COLA, DATA, WRITTEN, continuing, is_of_tupe

from helpers.running import USER_DIR, call_program, run
from helpers.training import losses
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.commands import convert

CHECKPOINT = "checkpoint_last.pt"


def by_fairseq(folder: Path, file: str, model: str) -> Dict[str, np.ndarray]:
    """The outputs of a checkpoint that fairseq's own from_pretrained loads.

    Args:
        folder (Path): of the checkpoint.
        file (str): its name.
        model (str): which of the models it is.
    """
    hub = RobertaModel.from_pretrained(
        str(folder), file, _data(model), user_dir=USER_DIR, bpe=None
    )  # fmt: skip
    return outputs(hub, model)


def by_tupe(folder: Path, file: str, model: str) -> Dict[str, np.ndarray]:
    """As :func:`by_fairseq`, with this project's, which reads the vocabulary, too."""
    return outputs(TupeRobertaModel.from_pretrained(str(folder), file, _data(model)), model)


def convert_into(checkpoint: Path, model: str, folder: Path) -> None:
    """Run tupe-convert: what is ours is written anew, and stock RoBERTa becomes ours."""
    words: List[object] = ["--anew"] if is_of_tupe(model) else []
    words += ["--checkpoint", checkpoint, "--output-dir", folder, "--overwrite"]
    words += ["--sentencepiece-model", WRITTEN / "pieces.model"]
    if model == CLASSIFIER:
        words += ["--dict", COLA / "dict.txt", "--label-dict", COLA / "label" / "dict.txt"]
    else:
        words += ["--dict", DATA / "dict.txt"]
    code, text = call_program(convert.main, words)
    if code:
        raise ValueError(f"tupe-convert: exit code {code}: {text[-300:]}")


def continued(checkpoint: Path, model: str, save_dir: Path) -> Dict[str, np.ndarray]:
    """The losses of every update with which fairseq-train goes on, and the outputs in the end."""
    process = run(*continuing(model, checkpoint, save_dir))
    found = losses(process)
    if not found:
        raise ValueError(f"no update was made: {process.stdout[-300:]}")
    values = {"updates": np.array(sorted(found)), "losses": np.array(list(found.values()))}
    return {**values, **by_tupe(save_dir, CHECKPOINT, model)}


def _data(model: str) -> str:
    return str(COLA if model == CLASSIFIER else DATA)
