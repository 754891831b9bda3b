"""Classification heads: one for texts, which is fairseq's with a pooling, and one for tags."""

import logging

import torch
from fairseq.models.roberta.model import RobertaClassificationHead
from torch import Tensor, nn

from tupe_fairseq.modules.pooling import POOLINGS

logger = logging.getLogger(__name__)
# a buffer of heads with mean pooling, whose weights would fit a head for <s>
POOLING_RECORD = "pooling_version"


class TextHead(RobertaClassificationHead):
    """fairseq's head on one vector of a text: the features of ``<s>``, or the mean of all tokens.

    Shape: features (B, L, D), is_token bool (B, L) -> (B, C).
    """

    def __init__(self, *args, pooling: str = "cls", **kwargs):
        super().__init__(*args, **kwargs)
        self.pooling = pooling
        if pooling == "mean":
            self.register_buffer(POOLING_RECORD, torch.ones((), dtype=torch.int64))

    def forward(self, features: Tensor, is_token: Tensor | None = None) -> Tensor:
        if self.pooling == "mean":
            if is_token is None:
                raise ValueError(
                    "a head with --pooling mean must know which tokens are padding; call "
                    "model(tokens, classification_head_name=...)"
                )
            features = POOLINGS["mean"](features, is_token).to(features.dtype).unsqueeze(1)
        return super().forward(features)


class TaggingHead(nn.Module):
    """out_proj(dropout(x)), as in transformers' tagging heads. Shape: (..., D) -> (..., C)."""

    def __init__(self, embed_dim: int, num_classes: int, dropout: float):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(embed_dim, num_classes)

    def forward(self, features: Tensor, is_token: Tensor | None = None) -> Tensor:
        return self.out_proj(self.dropout(features))


def fit_heads(model: nn.Module, state_dict: dict[str, Tensor], is_whole: bool) -> None:
    """Make the heads in a checkpoint's state dict those of the model.

    A head that the model lacks is left out, or registered with ``load_checkpoint_heads``; a head
    that the checkpoint lacks, or has with another size or kind, keeps the model's values.
    """
    start = "classification_heads."
    saved: dict[str, dict[str, Tensor]] = {}
    for key in [key for key in state_dict if key.startswith(start)]:
        name, _, rest = key[len(start) :].partition(".")
        saved.setdefault(name, {})[rest] = state_dict.pop(key)
    for name, tensors in saved.items():
        if name not in model.classification_heads and model.args.load_checkpoint_heads:
            num_classes = tensors["out_proj.weight"].size(0)
            if "dense.weight" in tensors:
                inner_dim = tensors["dense.weight"].size(0)
                model.register_classification_head(name, num_classes, inner_dim)
            else:
                model.register_tagging_head(name, num_classes)
    own = {name: head.state_dict() for name, head in model.classification_heads.items()}
    for name, tensors in saved.items():
        if _shapes(own.get(name, {})) != _shapes(tensors):
            logger.warning(
                "the checkpoint's head %s is left out: the model has none of this name, kind and "
                "size",
                name,
            )
            continue
        poolings = ["mean" if POOLING_RECORD in x else "cls" for x in (tensors, own[name])]
        if poolings[0] != poolings[1] and (is_whole or poolings[0] == "mean"):
            raise ValueError(
                f"--pooling of the head {name} is {poolings[0]} in the checkpoint and "
                f"{poolings[1]} in this model; give the checkpoint's flag"
            )
        own[name] = tensors
    for name, tensors in own.items():
        state_dict.update({f"{start}{name}.{key}": value for key, value in tensors.items()})


def _shapes(head: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {key: value.shape for key, value in head.items() if key != POOLING_RECORD}
