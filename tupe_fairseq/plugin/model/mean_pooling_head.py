"""fairseq's head for texts on the mean of their features, and how it comes out of a checkpoint."""

import re
from typing import Dict, Optional

from fairseq.models.roberta.model import RobertaClassificationHead
from torch import Tensor, nn

from tupe_fairseq.checkpoint.head_pooling import NAME, mean_record, recorded_pooling
from tupe_fairseq.files.names import CLS, MEAN
from tupe_fairseq.modules.pooling import get_pooling

_HEAD = re.compile(r"classification_heads\.([^.]+)\.dense\.weight")


class MeanPoolingHead(RobertaClassificationHead):
    """fairseq's head, but for ``--pooling mean``; it has the same tensors and a record of that.

    Args:
        options: as fairseq's.
    Shape:
        features (B, L, D), real bool (B, L), True = a token, no padding -> (B, C).
    Raises:
        ValueError: if it is not told which tokens are real.
    """

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.register_buffer(NAME, mean_record())

    def forward(self, features: Tensor, real: Optional[Tensor] = None, **kwargs) -> Tensor:
        # fairseq's own hub interface would give it the features alone
        if real is None:
            raise ValueError(
                "a head that was trained with --pooling mean must know what is padding: load the "
                "model with TupeRobertaModel.from_pretrained, not with RobertaModel's, or call "
                "model(tokens, classification_head_name=...)"
            )
        vectors = get_pooling(MEAN)(features, real).to(features.dtype)
        # fairseq's takes the first of all features
        return super().forward(vectors.unsqueeze(1))


def head_outputs(head: nn.Module, features: Tensor, real: Tensor) -> Tensor:
    """What a head makes of the features of texts; one for tags, of those of all tokens.

    Shape:
        features (B, L, D), real bool (B, L), True = a token, no padding -> (B, C); of tags
        (B, L, C).
    """
    return head(features, real) if isinstance(head, MeanPoolingHead) else head(features)


def check_pooling(model: nn.Module, state_dict: Dict[str, Tensor], is_whole: bool) -> None:
    """Refuse a head that was trained with another pooling than the model's.

    Args:
        model (TupeRobertaModel): whose heads are looked at, before the state dict makes others.
        state_dict (dict): to be loaded; a head of another size is left out of it later.
        is_whole (bool): whether a missing record counts, which who loads a part may leave out.
    Raises:
        ValueError: if there is one; the message names the flag.
    """
    for name in sorted({found.group(1) for found in map(_HEAD.fullmatch, state_dict) if found}):
        start = f"classification_heads.{name}."
        if name in model.classification_heads:
            own = model.classification_heads[name]
            if not isinstance(own, RobertaClassificationHead) or not _fits(own, state_dict, start):
                continue
            pooling = MEAN if isinstance(own, MeanPoolingHead) else CLS
        elif getattr(model.args, "load_checkpoint_heads", False):
            pooling = model.args.pooling  # that of the head that is made for it
        else:
            continue
        theirs = recorded_pooling(state_dict, start)
        if theirs != pooling and (is_whole or theirs == MEAN):
            raise ValueError(
                f"--pooling of {name} is {theirs} in the checkpoint and {pooling} in this model; "
                "give the checkpoint's"
            )


def _fits(head: RobertaClassificationHead, state_dict: Dict[str, Tensor], start: str) -> bool:
    layers = {"dense.weight": head.dense, "out_proj.weight": head.out_proj}
    return all(
        start + part in state_dict and state_dict[start + part].shape == layer.weight.shape
        for part, layer in layers.items()
    )
