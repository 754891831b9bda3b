"""Whole models, with random weights, and batches for them."""

import argparse
import functools
from typing import List, NamedTuple, Optional

import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.roberta import RobertaModel
from fairseq.models.roberta.model import base_architecture as stock_base
from fairseq.tasks.masked_lm import MaskedLMTask

import tupe_fairseq.models.tupe_roberta  # noqa: F401  registers the architectures

VOCAB_SIZE = 50265  # RoBERTa's
SIZES = {
    "tiny": {"encoder_layers": 2, "encoder_embed_dim": 128, "encoder_attention_heads": 2},
    "small": {"encoder_layers": 4, "encoder_embed_dim": 512, "encoder_attention_heads": 8},
    "medium": {"encoder_layers": 8, "encoder_embed_dim": 512, "encoder_attention_heads": 8},
    "base": {"encoder_layers": 12, "encoder_embed_dim": 768, "encoder_attention_heads": 12},
}
# Tokens of a sentence of SST-2's training set, <s> and </s> included: the 32 quantiles of
# 67,349 sentences of the official file, at 1.25 pieces per word.
SST2_LENGTHS = [
    3, 3, 4, 4, 4, 6, 6, 6, 6, 7, 7, 8, 8, 8, 10, 10, 11, 12, 12, 13, 14, 16, 17, 18, 20, 21,
    23, 24, 28, 31, 36, 43,
]  # fmt: skip


class Batch(NamedTuple):
    tokens: torch.Tensor
    masked: torch.Tensor
    targets: torch.Tensor

    @property
    def num_words(self) -> int:
        return int(self.tokens.ne(1).sum())


def lengths_with_padding(batch: int, seq_len: int, share: float):
    """Lengths evenly spread so that this share of the tokens is padding; the last is full."""
    shortest = round(seq_len * (1 - 2 * share))
    return torch.linspace(shortest, seq_len, batch).round().long()


def masked_batch(
    batch: int, seq_len: int, padding: float, device: torch.device, lengths: Optional[List] = None
) -> Batch:
    """Random words, 15% of which are to be predicted."""
    tokens = torch.randint(4, VOCAB_SIZE - 1, (batch, seq_len))
    tokens[:, 0] = 0
    if lengths is None:
        lengths = lengths_with_padding(batch, seq_len, padding)
    tokens[torch.arange(seq_len)[None] >= torch.as_tensor(lengths)[:, None]] = 1
    masked = (torch.rand(batch, seq_len) < 0.15) & tokens.gt(3)
    masked[0, 1] = True
    return Batch(tokens.to(device), masked.to(device), tokens[masked].to(device))


@functools.lru_cache(maxsize=None)
def dictionary() -> Dictionary:
    """RoBERTa's size, one for all models, because it takes long."""
    words = Dictionary()
    while len(words) < VOCAB_SIZE - 1:
        words.add_symbol(f"w{len(words)}")
    return words


def build(kind: str, size: str, seq_len: int, device, dtype=torch.float32, **options):
    """A model with fairseq's own task and dictionary.

    Args:
        kind (str): "stock" (fairseq's RoBERTa), "tupe" (TUPE-R) or "no bias" (the plugin's layers
            with ``--position-encoding none``: the difference is the cost of the position bias).
        options: of the plugin, such as ``unpad=True``.
    """
    args = argparse.Namespace(
        **SIZES[size],
        encoder_ffn_embed_dim=4 * SIZES[size]["encoder_embed_dim"],
        tokens_per_sample=seq_len,
        max_positions=seq_len,
        seed=1,
    )
    task = MaskedLMTask(args, dictionary())  # adds <mask>
    torch.manual_seed(1)
    if kind == "stock":
        stock_base(args)
        model = RobertaModel.build_model(args, task)
        # fairseq's GELU converts to float32 and back for the same numbers, which is not what is
        # compared
        for layer in model.encoder.sentence_encoder.layers:
            layer.activation_fn = F.gelu
    else:
        positions = {"position_encoding": "none"} if kind == "no bias" else {"rel_pos": True}
        for name, value in {**positions, **options}.items():
            setattr(args, name, value)
        ARCH_CONFIG_REGISTRY["tupe_roberta"](args)
        model = ARCH_MODEL_REGISTRY["tupe_roberta"].build_model(args, task)
    return model.to(device=device, dtype=dtype)


class Trainer:
    """A training step: forward, backward, Adam."""

    def __init__(self, model):
        self.model = model.train()
        fused = {"fused": True} if next(model.parameters()).is_cuda else {}
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, **fused)

    def masked_lm(self, batch: Batch) -> None:
        logits, _ = self.model(batch.tokens, masked_tokens=batch.masked)
        self._update(F.cross_entropy(logits.float(), batch.targets))

    def classify(self, batch: Batch) -> None:
        logits, _ = self.model(
            batch.tokens, features_only=True, classification_head_name="benchmark"
        )
        labels = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        self._update(F.cross_entropy(logits.float(), labels))

    def _update(self, loss) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def infer(model, batch: Batch) -> None:
    """Features of a batch."""
    with torch.no_grad():
        model.eval()(batch.tokens, features_only=True)
