"""What each tensor of a checkpoint is called in a model folder, in both directions."""

from collections.abc import Iterator

from torch import Tensor

from tupe_fairseq.checkpoint.checkpoint import CheckpointError
from tupe_fairseq.checkpoint.state_dict import EMBEDDING, ENCODER, POOLING, VOCABULARY

_LM_HEAD = "encoder.lm_head."
_HEADS = "classification_heads."
# of a head for tokens, which is one layer
_OF_TOKENS = "classifier.weight"
#: beginnings of names, or whole ones, in a checkpoint and in a folder; the first match counts
_NAMES = (
    (EMBEDDING, "tupe.embed_tokens.weight"),
    (ENCODER, "tupe.encoder."),
    (f"{_LM_HEAD}dense.", "lm_head.dense."),
    (f"{_LM_HEAD}layer_norm.", "lm_head.layer_norm."),
    (f"{_LM_HEAD}weight", "lm_head.decoder.weight"),
    (f"{_LM_HEAD}bias", "lm_head.decoder.bias"),
)
# what the options and the vocabulary are: config.json says it
_RECORDS = (ENCODER + "position_version", VOCABULARY)


def to_folder(
    state: dict[str, Tensor], head: str | None = None, tied: bool = True
) -> dict[str, Tensor]:
    """The tensors of model.safetensors, in float32, none of which shares memory with another.

    Args:
        state (dict): the state dict of a tupe_roberta checkpoint.
        head (str, optional): the classification head to keep, as ``classifier``; others are left
            out.
        tied (bool): whether the LM head's matrix is the word embedding; it is then left out.
    Raises:
        CheckpointError: if a tensor has no place in a folder, if the head or the LM head is
            missing, or if the LM head is said to be tied and is not.
    """
    for name in (EMBEDDING, f"{_LM_HEAD}weight", f"{_LM_HEAD}bias"):
        if name not in state:
            raise CheckpointError(f"the checkpoint has no tensor {name}")
    if tied and not state[f"{_LM_HEAD}weight"].equal(state[EMBEDDING]):
        raise CheckpointError(
            f"{_LM_HEAD}weight is not the word embedding, to which it must be tied without "
            "--untie-weights-roberta"
        )
    left_out = {*_RECORDS, f"{_LM_HEAD}weight"} if tied else {*_RECORDS}
    names = _names(head, of_tokens=f"{_HEADS}{head}.dense.weight" not in state)
    tensors = {}
    for name, tensor in state.items():
        is_other_head = name.startswith(_HEADS) and name.split(".")[1] != head
        is_record = name in left_out or name.endswith(f".{POOLING}")
        if not is_record and not is_other_head:
            renamed = _renamed(name, names)
            if renamed is None:
                raise CheckpointError(f"the checkpoint's tensor {name} has no place in a folder")
            tensors[renamed] = tensor.detach().float().contiguous().clone()
    if head is not None and not {"classifier.out_proj.weight", _OF_TOKENS} & set(tensors):
        raise CheckpointError(f"the checkpoint has no classification head {head!r}")
    return tensors


def from_folder(
    tensors: dict[str, Tensor], head: str | None = None, tied: bool = True
) -> dict[str, Tensor]:
    """The state dict of a checkpoint, without the two records of options and vocabulary.

    Args:
        tensors (dict): those of a folder, of whichever class of the folder's; what it has not, the
            state dict has not either.
        head (str, optional): the name that ``classifier`` gets among the classification heads.
        tied (bool): whether the LM head's matrix is the word embedding.
    Raises:
        CheckpointError: if a tensor has no place in a checkpoint.
    """
    if not any(name.startswith("tupe.") for name in tensors):  # the bare model, saved by itself
        tensors = {f"tupe.{name}": tensor for name, tensor in tensors.items()}
    back = tuple((theirs, ours) for ours, theirs in _names(head))
    state = {}
    for name, tensor in tensors.items():
        renamed = _renamed(name, back)
        if renamed is None:
            raise CheckpointError(f"the folder's tensor {name} has no place in a checkpoint")
        state[renamed] = tensor
    if tied and EMBEDDING in state:
        state[f"{_LM_HEAD}weight"] = state[EMBEDDING]
    return state


def _names(head: str | None, of_tokens: bool = False) -> tuple[tuple[str, str], ...]:
    if head is None:
        return _NAMES
    own = f"{_HEADS}{head}." + ("out_proj." if of_tokens else "")
    return (*_NAMES, (own, "classifier."))


def _renamed(name: str, pairs) -> str | None:
    found: Iterator[str] = (
        after + name[len(before) :]
        for before, after in pairs
        if name == before or (before.endswith(".") and name.startswith(before))
    )
    return next(found, None)
