"""Fits TUPE's untied absolute bias to given position-to-position scores."""

import torch
from torch import Tensor

from tupe_fairseq.checkpoint.position_scores import centred
from tupe_fairseq.position import UntiedAbsoluteBias

_STEPS = 300
# the row of the table with which others look at [CLS]
OTHER_TO_CLS_ROW = 1
# singular values below are noise
_NOTHING = 1e-3


def fit_bias(scores: Tensor, embed_dim: int) -> UntiedAbsoluteBias:
    """The bias with these scores of words as queries.

    The best queries and keys of each head come from a singular value decomposition.  A table of
    fewer rows than columns gives any; of a longer one the directions that matter most are the
    start of a few hundred steps of Adam on the squared error, without what the softmax does not
    see.  It is the same each time.

    Args:
        scores (Tensor): (H, L - 1, L), of the positions from 1 on, rows are queries; the first
            column is [CLS]'s, the same in all rows.
        embed_dim (int): the width of the table.
    """
    heads, _, length = scores.shape
    head_dim = embed_dim // heads
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        bias = UntiedAbsoluteBias(embed_dim, heads, length, scaling=(2 * head_dim) ** -0.5)
        queries, keys = _decomposed(scores / bias.scaling, head_dim, embed_dim)
        _set_table(bias, torch.cat([queries, keys], dim=1))
        _set_projections(bias, queries, keys)
        if length + 1 >= embed_dim:
            _improve(bias, scores)
    return bias


def _decomposed(scores: Tensor, head_dim: int, embed_dim: int):
    """The queries and keys of each row of the table, (L + 1, D) each.

    A component without use has a random query and no key, so that training can begin to use it.
    """
    heads, _, length = scores.shape
    queries, keys = torch.zeros(2, length + 1, heads, head_dim)
    first = OTHER_TO_CLS_ROW + 1
    queries[OTHER_TO_CLS_ROW, :, 0] = 1
    keys[OTHER_TO_CLS_ROW, :, 0] = scores[:, 0, 0]
    left, size, right = torch.linalg.svd(scores[..., 1:])
    used = min(head_dim, length - 1)
    size = size[:, :used]
    roots = torch.where(size > _NOTHING, size, torch.zeros_like(size)).sqrt()
    queries[first:, :, :used] = (left[..., :used] * roots[:, None]).transpose(0, 1)
    keys[first:, :, :used] = (right[:, :used] * roots[..., None]).permute(2, 0, 1)
    unused = torch.ones(heads, head_dim, dtype=torch.bool)
    unused[:, :used] = roots == 0
    fresh = torch.randn(length - 1, heads, head_dim) * 0.02 * embed_dim**0.5
    queries[first:] = torch.where(unused, fresh, queries[first:])
    return queries.flatten(1), keys.flatten(1)


@torch.no_grad()
def _set_table(bias: UntiedAbsoluteBias, wanted: Tensor) -> None:
    """Rows from which the wanted vectors can be had by a linear map, as big as new ones."""
    rows, dim = bias.pos.weight.shape
    # LayerNorm takes out the mean: directions without one
    basis = torch.linalg.qr(torch.cat([torch.ones(dim, 1), torch.randn(dim, dim - 1)], 1))[0][:, 1:]
    left, size, _ = torch.linalg.svd(wanted, full_matrices=False)
    used = min(rows, dim - 1, left.size(1))
    if rows > used:  # not all rows can be independent, so that sizes matter
        left = left * size.sqrt()
    else:
        left, used = torch.eye(rows), rows
    table = left[:, :used] @ basis[:, :used].T
    table /= table.pow(2).mean(1, keepdim=True).sqrt().clamp_min(1e-6)
    bias.pos.weight.copy_(table * 0.02)


@torch.no_grad()
def _set_projections(bias: UntiedAbsoluteBias, queries: Tensor, keys: Tensor) -> None:
    """Least squares."""
    normed = bias.pos_ln(bias.pos.weight)
    inverse = torch.linalg.pinv(torch.cat([normed, torch.ones(len(normed), 1)], 1))
    for projection, wanted in ((bias.pos_q_proj, queries), (bias.pos_k_proj, keys)):
        solution = inverse @ wanted
        projection.weight.copy_(solution[:-1].T)
        projection.bias.copy_(solution[-1])


def fitted_scores(bias: UntiedAbsoluteBias) -> Tensor:
    """What :func:`fit_bias` was given, as the bias has it."""
    return bias(bias.max_positions)[:, 1:]


def _improve(bias: UntiedAbsoluteBias, scores: Tensor) -> None:
    wanted = centred(scores)
    best, kept = float("inf"), {}
    optimizer = torch.optim.Adam(bias.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / (_STEPS + 1))
    with torch.enable_grad():
        for _ in range(_STEPS + 1):
            error = (centred(fitted_scores(bias)) - wanted).pow(2).mean()
            if error.item() < best:
                best = error.item()
                kept = {name: one.detach().clone() for name, one in bias.state_dict().items()}
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            schedule.step()
    bias.load_state_dict(kept)
