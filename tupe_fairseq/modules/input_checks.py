"""Refuses input of the wrong shape, which broadcasting could silently make something else of."""

from torch import Tensor


def check_embeddings(embeddings: Tensor, embed_dim: int) -> None:
    """Refuse what cannot be embeddings of a batch.

    Args:
        embeddings (Tensor): should be (B, L, D), of a floating dtype.
        embed_dim (int): D.
    Raises:
        ValueError: if it is not; the message names shape or dtype.
    """
    if embeddings.dim() != 3 or embeddings.size(-1) != embed_dim:
        raise ValueError(
            f"embeddings are {tuple(embeddings.shape)}; expected is (B, L, embed_dim {embed_dim})"
        )
    if not embeddings.is_floating_point():
        raise ValueError(
            f"embeddings are {embeddings.dtype}, no floating dtype; token ids need a word "
            "embedding first"
        )


def check_mask(key_padding_mask: Tensor, x: Tensor) -> None:
    """Refuse a mask that is not of the batch.

    Args:
        key_padding_mask (Tensor): should be (B, L).
        x (Tensor): the batch, (B, L, D).
    Raises:
        ValueError: if it is not; the message names both shapes.
    """
    if x.dim() != 3 or key_padding_mask.shape != x.shape[:2]:
        raise ValueError(
            f"key_padding_mask is {tuple(key_padding_mask.shape)}, and the input is "
            f"{tuple(x.shape)}; expected are (B, L) and (B, L, D)"
        )
