"""TUPE without fairseq: learn to name the token three places back, and look at the position bias.

    pip install ".[plot]" && python examples/pytorch_only.py     # seconds on a CPU

The answer depends on distance alone, so the encoder has to learn it in its position bias. The
script prints the loss and writes bias.png: every head looks three places back, and away from [CLS].
"""

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from tupe_fairseq import TupeConfig, TupeEncoder

CLS, TOKENS, LENGTH, BACK = 0, 20, 24, 3


class Model(nn.Module):
    def __init__(self, config: TupeConfig):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, config.embed_dim)  # of tokens alone: no positions
        self.encoder = TupeEncoder(config)
        self.output = nn.Linear(config.embed_dim, TOKENS)

    def forward(self, tokens):
        return self.output(self.encoder(self.embedding(tokens)))


def batch(size: int):
    """Random tokens behind [CLS], and for each the token three places back."""
    tokens = torch.randint(1, TOKENS, (size, LENGTH))
    tokens[:, 0] = CLS
    return tokens, tokens.roll(BACK, dims=1)


torch.manual_seed(1)
config = TupeConfig(
    embed_dim=64, num_heads=4, ffn_embed_dim=128, num_layers=2, max_positions=LENGTH, rel_pos=True
)
model = Model(config)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(101):
    tokens, target = batch(32)
    logits = model(tokens)[:, BACK + 1 :]
    loss = cross_entropy(logits.flatten(0, 1), target[:, BACK + 1 :].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        right = (logits.argmax(-1) == target[:, BACK + 1 :]).float().mean()
        print(f"step {step}: loss {loss.item():.3f}, {right:.0%} right")

with torch.no_grad():
    bias = model.encoder.position(LENGTH)  # (heads, query, key), added to the scores of all layers
figure, axes = plt.subplots(1, config.num_heads, figsize=(12, 3.2), layout="constrained")
for head, axis in enumerate(axes):
    limit = bias[head].abs().max().item()
    image = axis.imshow(bias[head], cmap="RdBu_r", vmin=-limit, vmax=limit)
    axis.set(title=f"head {head + 1}", xlabel="key position")
    figure.colorbar(image, ax=axis, shrink=0.8)
axes[0].set_ylabel("query position")
figure.suptitle("Position bias (TUPE-R) after learning to look three places back")
figure.savefig("bias.png", dpi=120)
print("wrote bias.png")
