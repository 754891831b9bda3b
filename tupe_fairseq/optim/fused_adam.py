"""fairseq's Adam with torch's fused kernel, without apex: one launch for many parameters.

m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,  p = p - lr wd p
p = p - lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)
Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101; torch divides sqrt(v) by
sqrt(1 - b2^t) before it adds eps, so we divide fairseq's eps by the same factor
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, List  # noqa: UP035

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import Adam, FairseqAdam
from omegaconf import II

from tupe_fairseq.options import option


@dataclass
class FusedAdamConfig(FairseqDataclass):
    adam_betas: Any = option((0.9, 0.999), "betas for Adam optimizer")
    adam_eps: float = option(1e-8, "epsilon for Adam optimizer")
    weight_decay: float = option(0.0, "weight decay")
    lr: List[float] = II("optimization.lr")  # noqa: UP006


@register_optimizer("fused_adam", dataclass=FusedAdamConfig)
class FairseqFusedAdam(FairseqAdam):
    """``--optimizer adam`` in fewer operations, with the flags above; the state is the same."""

    def __init__(self, cfg, params):
        FairseqOptimizer.__init__(self, cfg)
        self._optimizer = FusedAdam(params, **self.optimizer_config)


# fairseq compares the names when training resumes; so checkpoints of adam fit, and vice versa
FairseqFusedAdam.__name__ = FairseqAdam.__name__


class FusedAdam(Adam):
    """fairseq's Adam with another ``step``; moments are always float32."""

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            self.update(group)
        return loss

    def update(self, group):
        together = defaultdict(list)  # one call of the kernel per entry
        for p in group["params"]:
            if p.grad is not None:
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1
                together[p.device, p.dtype, int(state["step"])].append(p)
        for (device, dtype, t), params in together.items():
            # 16-bit parameters are updated in float32 and rounded, as fairseq does
            values, grads = [p.float() for p in params], [p.grad.float() for p in params]
            moments = [[self.moment(p, name) for p in params] for name in ("exp_avg", "exp_avg_sq")]
            beta1, beta2 = group["betas"]
            torch._fused_adamw_(
                values,
                grads,
                *moments,
                [],
                [torch.full((), float(t), device=device)] * len(params),
                lr=group["lr"],
                beta1=beta1,
                beta2=beta2,
                weight_decay=group["weight_decay"],
                eps=group["eps"] / math.sqrt(1 - beta2**t),
                amsgrad=False,
                maximize=False,
            )
            if dtype != torch.float32:
                torch._foreach_copy_(params, values)

    def moment(self, p, name):
        state = self.state[p]
        if name not in state:
            state[name] = torch.zeros_like(p, dtype=torch.float32)
        state[name] = state[name].to(p.device, torch.float32)  # those of the file may differ
        return state[name]
