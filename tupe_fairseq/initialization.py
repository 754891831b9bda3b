"""BERT's initial values: N(0, 0.02), biases zero.

torch's own values are drawn first, so that what a seed gives stays the same.
"""

from torch import nn


class Linear(nn.Linear):
    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.normal_(self.weight, std=0.02)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.normal_(self.weight, std=0.02)
