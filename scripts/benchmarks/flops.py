"""Model FLOPs utilization (MFU): the matrix products of training, relative to the GPU's peak.

    FLOPs per token = 6 [ n (4 D^2 + 2 D F) + 2 n L D + s (D^2 + D V) - (1 - s) (D^2 + 2 D F) ]
    MFU             = tokens per second * FLOPs per token / (GPUs * peak of a GPU)

for n layers, width D, feed-forward width F, L tokens per sample, a vocabulary of V and a share s of
masked tokens. Only these need the LM head and the part of the last layer after its attention. The 6
is a multiplication and an addition, once in the forward pass and twice in the backward pass. Not
counted: positions, softmax, the optimizer, and recomputation.
"""

import re

#: dense bf16 FLOPs per second with float32 sums, from NVIDIA's data sheets; the first match counts
PEAKS = {
    "H200 NVL": 835e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "RTX 4090": 165e12,
}


def peak_flops(card: str) -> float | None:
    """The peak of a GPU, by its name in torch; None if it is unknown, or only a part (MIG)."""
    names = [name for name in PEAKS if re.search(rf"\b{name}\b(?! D\b| Laptop|.* MIG )", card)]
    return PEAKS[names[0]] if names else None


def training_flops(
    num_layers: int,
    embed_dim: int,
    ffn_embed_dim: int,
    vocab_size: int,
    seq_len: float,
    masked: float,
) -> float:
    """FLOPs per token in pre-training; ``masked`` is the share of tokens that are predicted."""
    of_layer = 4 * embed_dim**2 + 2 * embed_dim * ffn_embed_dim
    left_out = embed_dim**2 + 2 * embed_dim * ffn_embed_dim
    attention = 2 * num_layers * seq_len * embed_dim
    head = embed_dim**2 + embed_dim * vocab_size
    return 6 * (num_layers * of_layer + attention + masked * head - (1 - masked) * left_out)
