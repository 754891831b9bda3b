"""The models that every line trains, on the data that are kept with the tests."""

from pathlib import Path
from typing import Dict, List

from helpers.running import USER_DIR

WRITTEN = Path(__file__).resolve().parents[2] / "tests" / "compatibility" / "v0_1"
DATA = WRITTEN / "data-bin"
COLA = WRITTEN / "glue-bin" / "CoLA"
CLASSIFIER = "classifier"
STOCK = "stock-roberta"
HEAD = "sentence_classification_head"
#: updates that the writer makes, and those that everyone makes afterwards
UPDATES, CONTINUED = 4, 8

_REL_POS = ["--rel-pos", "--rel-pos-buckets", "8", "--max-rel-pos", "5"]


def _encoding(name: str, *flags: str) -> List[str]:
    return ["--position-encoding", name, *flags]


#: flags of masked language models
MASKED: Dict[str, List[str]] = {
    "tupe-a": [],
    "tupe-r": _REL_POS,
    "tupe-r-tie-cls": [*_REL_POS, "--tie-cls"],
    "learned": _encoding("learned", *_REL_POS, "--untie-cls"),
    "sinusoidal": _encoding("sinusoidal"),
    "none": _encoding("none", *_REL_POS),
    "transformer-xl": _encoding("transformer-xl"),
    "enformer": _encoding("enformer"),
    "rope": _encoding("rope"),
    "alibi": _encoding("alibi"),
    "shaw": _encoding("shaw"),
    "disentangled": _encoding("disentangled"),
}
MODELS = [*MASKED, CLASSIFIER, STOCK]

_OPTIMIZER = [
    "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6",
    "--weight-decay", "0.01", "--clip-norm", "1.0", "--lr", "1e-2", "--lr-scheduler",
    "polynomial_decay", "--warmup-updates", "2", "--total-num-update", "20", "--batch-size", "4",
    "--required-batch-size-multiple", "1", "--no-epoch-checkpoints", "--disable-validation",
    "--num-workers", "0", "--data-buffer-size", "0", "--cpu", "--log-format", "json",
    "--log-interval", "1", "--seed", "7",
]  # fmt: skip
_SIZE = [
    "--encoder-layers", "2", "--encoder-embed-dim", "8", "--encoder-ffn-embed-dim", "12",
    "--encoder-attention-heads", "2", "--max-positions", "48",
]  # fmt: skip
_MASKED_LM = [
    "--task", "masked_lm", "--criterion", "masked_lm", "--sample-break-mode", "complete",
    "--tokens-per-sample", "48", "--skip-invalid-size-inputs-valid-test",
]  # fmt: skip
_GLUE = [
    "--task", "glue_sentence_prediction", "--criterion", "glue_sentence_prediction",
    "--glue-task", "CoLA", "--num-classes", "2",
]  # fmt: skip
# the lines draw masks and dropout differently: here each word is to be predicted and none is
# hidden, so that the losses of all lines are of the same inputs
_WITHOUT_CHANCE = ["--dropout", "0", "--attention-dropout", "0", "--activation-dropout", "0"]
_ALL_SEEN = [
    "--mask-prob", "0.999999999", "--leave-unmasked-prob", "1.0", "--random-token-prob", "0.0",
]  # fmt: skip


def is_of_tupe(model: str) -> bool:
    """Whether it is one of ours, not of fairseq alone."""
    return model != STOCK


def training(model: str, save_dir: Path, *flags: str) -> List[str]:
    """The command that trains one of :data:`MODELS`.

    Args:
        model (str): its name.
        save_dir (Path): for its checkpoints.
        flags: more flags; later ones win.
    """
    data, task = (COLA, _GLUE) if model == CLASSIFIER else (DATA, _MASKED_LM)
    arch = ["--user-dir", USER_DIR, "--arch", "tupe_roberta_tiny"]
    if model == STOCK:
        arch = ["--arch", "roberta_base"]
    own = _REL_POS if model == CLASSIFIER else MASKED.get(model, [])
    words = [data, *arch, *_SIZE, *own, *task, *_OPTIMIZER, "--save-dir", save_dir]
    return ["fairseq-train", *map(str, words), "--max-update", str(UPDATES), *flags]


def continuing(model: str, checkpoint: Path, save_dir: Path) -> List[str]:
    """The command that trains on from a checkpoint, in a way in which nothing is left to chance."""
    flags = [*_WITHOUT_CHANCE, *([] if model == CLASSIFIER else _ALL_SEEN)]
    flags += ["--restore-file", str(checkpoint), "--max-update", str(CONTINUED)]
    return training(model, save_dir, *flags)
