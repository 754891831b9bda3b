"""Checks that weights fit a model: for the hub, the commands, fairseq-train and conversion."""

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn

from tupe_fairseq.checkpoint.checkpoint import (
    EMBEDDING,
    ENCODER,
    HEADS,
    LM_HEAD,
    VOCABULARY_HASH,
    vocabulary_version,
)
from tupe_fairseq.modules.record import RECORD, check_record
from tupe_fairseq.options import TupeConfig, flag
from tupe_fairseq.position import get_position_encoding


def fit(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    stack: str,
    shown: Callable[[str], str] = flag,
    symbols: Sequence[str] | None = None,
) -> None:
    """Refuse weights of another model, even if they would load and compute something else.

    It only reads shapes, recorded buffers, and matrices that the model ties, so that a
    memory-mapped file is not read as a whole. Heads may differ, because fine-tuning adds them.

    Args:
        stack: the prefix of the encoder or decoder, which records its ``config``.
        shown: an option's flag, for messages.
        symbols: of the model's dictionary, to compare the vocabulary.
    """
    recorded, own = model.get_submodule(stack.rstrip(".")), model.state_dict()
    recorded.check_whole(tensors, stack)
    config = recorded.config
    wrong = [
        name
        for name in {**own, **tensors}
        if _shape(own, name) != _shape(tensors, name)
        and not (name.startswith(HEADS) or name.endswith("_version"))
    ]
    if wrong and stack == ENCODER:  # say it in flags, if it is one of these sizes
        check_sizes(config, tensors)
    if symbols is not None:
        check_vocabulary(recorded_vocabulary(tensors), symbols)
    check_record(config, tensors[stack + RECORD], shown)
    for name in wrong:
        if name in own:  # torch refuses names that the model does not have
            raise ValueError(
                f"{name} is {_shape(tensors, name)} in the checkpoint and {_shape(own, name)} in "
                "this model; give the checkpoint's --arch, sizes and dictionary"
            )
    check_tied(model, tensors)


def _shape(tensors: Mapping[str, Tensor], name: str) -> str:
    return str(tuple(tensors[name].shape)) if name in tensors else "missing"


def check_sizes(config: TupeConfig, tensors: Mapping[str, Tensor]) -> None:
    """Refuse an encoder of other sizes than those of the tensors, before it is built."""
    embedding = tensors.get(EMBEDDING)
    if embedding is None or embedding.dim() != 2:
        raise ValueError("the checkpoint holds no word embedding")
    layers = {name.split(".")[3] for name in tensors if name.startswith(f"{ENCODER}layers.")}
    sizes = {"num_layers": len(layers), "embed_dim": embedding.size(1)}
    inner = tensors.get(f"{ENCODER}layers.0.fc1.weight")
    if inner is not None:
        sizes["ffn_embed_dim"] = inner.size(0)
    encoding = get_position_encoding(config.position_encoding)
    table = tensors.get(f"{ENCODER}position_bias.{encoding.TABLE}")
    if table is not None:
        sizes["max_positions"] = table.size(0) - encoding.table_begins
    differing = [
        f"{flag(name)} is {size} in the checkpoint and {getattr(config, name)} in this model"
        for name, size in sizes.items()
        if size != getattr(config, name)
    ]
    if differing:
        raise ValueError(f"{'; '.join(differing)}; give the checkpoint's")


def check_tied(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Refuse two matrices for what is one in the model, which would keep the last one."""
    first: dict[nn.Parameter, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        own = first.setdefault(parameter, name)
        both = [tensors[x] for x in (own, name) if x in tensors and own != name]
        if len(both) == 2 and not both[0].equal(both[1]):
            missing = "--untie-weights-roberta" if name.startswith(LM_HEAD) else "flags"
            raise ValueError(
                f"{own} and {name} are two matrices in the checkpoint and one in this model; give "
                f"the checkpoint's {missing}"
            )


def recorded_vocabulary(tensors: Mapping[str, Tensor]) -> tuple[int, int | None]:
    """The rows of a checkpoint's word embedding, and the hash of its dictionary, if recorded."""
    recorded = tensors.get(VOCABULARY_HASH)
    # half precision cannot hold the record
    is_lost = recorded is None or recorded.is_floating_point()
    return tensors[EMBEDDING].size(0), None if is_lost else int(recorded)


def check_vocabulary(
    vocabulary: tuple[int, int | None],
    symbols: Sequence[str],
    dictionary: str = "dict.txt",
    advice: str = "use the dict.txt that it was trained with, and data prepared with that",
) -> None:
    """Refuse symbols that do not match a ``recorded_vocabulary``."""
    rows, version = vocabulary
    if rows != len(symbols):
        raise ValueError(
            f"the checkpoint has {rows} symbols and {dictionary} has {len(symbols)}, <mask> and "
            f"the built-in ones included; {advice}"
        )
    if version not in (None, int(vocabulary_version(symbols))):
        raise ValueError(
            "the checkpoint was trained with a different vocabulary of the same size, not with "
            f"{dictionary}; {advice}"
        )
