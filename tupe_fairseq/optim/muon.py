"""Muon for the matrices of the layers, and AdamW (``fused_adam``) for everything else.

    m = 0.95 m + 0.05 g,  x = 0.05 g + 0.95 m,  x = x / ||x||
    5 times x = a x + (b x x^T + c (x x^T)^2) x,  (a, b, c) = (3.4445, -4.775, 2.0315)
    W = W - lr r wd W - lr r 0.2 sqrt(max(rows, columns)) x
Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/; the factor 0.2 sqrt(max(..)), with
which an update is about as large as AdamW's, Liu et al. 2025, https://arxiv.org/abs/2502.16982

The iteration brings all singular values of x close to 1, so that a step moves W equally far in all
directions. r is --muon-lr-ratio. Its weights are those that ``mark_matrices`` marks: W_Q, W_K and
W_V, each for itself but not by heads, W_O, the feed-forward networks, and projections of positions.
Tables of positions, embeddings, the model's heads, biases and LayerNorms are AdamW's.

Not torch.optim.Muon (since 2.9): it iterates in bfloat16, which takes ten times as long on CPUs
without instructions for it, takes one matrix after the other, and does not split stacked ones.
Here the CPU iterates in float32, a GPU in bfloat16, and equal shapes are one product.
"""

import math
from collections import defaultdict
from dataclasses import dataclass

import torch
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import FairseqAdam
from torch import Tensor

from tupe_fairseq.matrices import stacked_matrices
from tupe_fairseq.optim.fused_adam import FusedAdam, FusedAdamConfig
from tupe_fairseq.options import option

MOMENTUM = 0.95
STEPS = 5
COEFFICIENTS = 3.4445, -4.7750, 2.0315
LEAST_NORM = 1e-7


@dataclass
class MuonConfig(FusedAdamConfig):
    muon_lr_ratio: float = option(
        2.5,
        "Muon's learning rate, for matrices of layers, divided by --lr, that of AdamW for the rest",
    )


@register_optimizer("muon", dataclass=MuonConfig)
class FairseqMuon(FairseqAdam):
    """``--optimizer muon``; --lr, --adam-betas and --adam-eps are AdamW's."""

    def __init__(self, cfg, params):
        FairseqOptimizer.__init__(self, cfg)
        if cfg.muon_lr_ratio <= 0:
            raise ValueError(f"--muon-lr-ratio ({cfg.muon_lr_ratio}) must be above 0")
        sides: tuple[list, list] = ([], [])
        for p in params:
            sides[stacked_matrices(p) > 0].append(p)
        if not sides[1]:
            raise ValueError(
                "--optimizer muon finds no matrices: it needs a tupe_* --arch, "
                "--fp16-no-flatten-grads with --fp16, and no --ddp-backend fully_sharded"
            )
        ratios = None, cfg.muon_lr_ratio  # AdamW's side first: its rate is the one that is logged
        groups = [{"params": x, "muon_lr_ratio": ratio} for x, ratio in zip(sides, ratios)]
        self._optimizer = Muon(groups, **self.optimizer_config)


class Muon(FusedAdam):
    """Muon for the group with a ``muon_lr_ratio``; its state is ``momentum_buffer``, float32."""

    supports_flat_params = False  # a flat vector has no matrices

    def update(self, group):
        if group["muon_lr_ratio"] is None:
            return super().update(group)
        lr = group["lr"] * group["muon_lr_ratio"]
        together = defaultdict(list)  # one product per entry
        rounded = []
        for p in group["params"]:
            if p.grad is None:
                continue
            # 16-bit parameters are updated in float32 and rounded, as fairseq does
            value, grad = p.float(), p.grad.float()
            momentum = self.moment(p, "momentum_buffer").lerp_(grad, 1 - MOMENTUM)
            value.mul_(1 - lr * group["weight_decay"])
            number = stacked_matrices(p)
            for pair in zip(value.chunk(number), grad.lerp(momentum, MOMENTUM).chunk(number)):
                rows, columns = pair[0].shape
                matrix, x = (y.mT if rows > columns else y for y in pair)
                together[p.device, x.shape].append((matrix, x))
            rounded += [(p, value)] * (value is not p)
        for (_, (_, longer)), pairs in together.items():
            matrices, directions = zip(*pairs)
            updates = orthogonalize(torch.stack(directions)).unbind()
            torch._foreach_add_(matrices, updates, alpha=-lr * 0.2 * math.sqrt(longer))
        for p, value in rounded:
            p.copy_(value)


def orthogonalize(x: Tensor) -> Tensor:
    """Bring the singular values of matrices close to 1: (n, rows, columns), rows <= columns."""
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=LEAST_NORM)
    x = x.bfloat16() if x.is_cuda else x
    a, b, c = COEFFICIENTS
    for _ in range(STEPS):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x.float()
