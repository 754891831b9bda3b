"""Model FLOPs utilization (MFU): the products of a training, over what the card could multiply.

    flops a token = 6 [ n (4 D^2 + 2 D F) + 2 n L D + s (D^2 + D V) - (1 - s) (D^2 + 2 D F) ]
    MFU           = tokens a second * flops a token / (cards * peak of a card)

of n layers, width D, feed-forward width F, L tokens a sample, a vocabulary of V, and a share s of
masked tokens, which alone need the LM head and the rest of the last layer after its attention. 6 is
a product and a sum, forward, and twice in the backward pass. Not counted: positions, softmax, the
optimizer, and what is computed again.
"""

import re

#: dense products a second in bf16, summed in float32, of NVIDIA's data sheets; the first name fits
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
    """Of a card by the name that torch gives it; None for a part of a card, or one unknown."""
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
    """Of a token in pre-training; ``masked``: the share of tokens that are predicted."""
    of_layer = 4 * embed_dim**2 + 2 * embed_dim * ffn_embed_dim
    left_out = embed_dim**2 + 2 * embed_dim * ffn_embed_dim
    attention = 2 * num_layers * seq_len * embed_dim
    head = embed_dim**2 + embed_dim * vocab_size
    return 6 * (num_layers * of_layer + attention + masked * head - (1 - masked) * left_out)
