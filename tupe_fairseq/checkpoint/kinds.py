"""Which code wrote a foreign checkpoint."""

from types import ModuleType
from typing import Any, Dict

from tupe_fairseq.checkpoint import convert_authors, convert_roberta
from tupe_fairseq.checkpoint.restricted_load import CheckpointError


def kind_of(options: Dict[str, Any]) -> ModuleType:
    """The module that converts the checkpoints of the code that wrote these options.

    It has ``NAME``, ``HIDDEN_SYMBOLS``, ``convert_options`` and ``rename_tensors``.

    Raises:
        CheckpointError: if the architecture is one of this project, or unknown.
    """
    arch = str(options.get("arch"))
    if arch.startswith("bert"):
        return convert_authors
    if arch.startswith("roberta") or arch == "xlm":  # stock fairseq's xlm is a size of RoBERTa
        return convert_roberta
    if arch.startswith("tupe_roberta"):
        raise CheckpointError(
            f"the checkpoint's arch is {arch!r}: it is one of this project already; use it as it is"
        )
    raise CheckpointError(
        f"the checkpoint's arch is {arch!r}, neither one of the TUPE authors' bert_* nor a stock "
        "fairseq roberta_*"
    )
