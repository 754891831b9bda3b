"""Checkpoints as the TUPE authors' code wrote them, made here by renaming ours."""

import argparse

import torch

from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.modules.heads import LMHead, TextHead

WORDS = [f"w{n} {99 - n}" for n in range(20)]
#: the dictionary of a converted model, from id 4 on
LISTED = ["<file>", "<email>", "<url>", *(word.split()[0] for word in WORDS)]
VOCABULARY = 4 + len(LISTED) + 1
SIZES = {
    "encoder_layers": 2, "encoder_embed_dim": 12, "encoder_ffn_embed_dim": 20,
    "encoder_attention_heads": 3, "max_positions": 16,
}  # fmt: skip


OUR_PARTS = {  # parts of our names: the authors' names
    "position_bias.untied_absolute.pos_q_proj": "pos_q_linear",
    "position_bias.untied_absolute.pos_k_proj": "pos_k_linear",
    "position_bias.untied_absolute.": "",
    "position_bias.relative.": "",
    "layernorm_embedding": "emb_layer_norm",
}


def their_names(encoder):
    """An encoder's tensors under the names of the authors' code."""
    theirs = {}
    for name, tensor in encoder.state_dict().items():
        if name == "position_version":
            continue
        for ours, there in OUR_PARTS.items():
            name = name.replace(ours, there)
        if name.startswith("layer_norm."):
            name = "emb_out_" + name
        theirs["decoder.sentence_encoder." + name] = tensor
    return theirs


def their_checkpoint(
    rel_pos=True, normalize_before=False, num_classes=None, max_positions=16, **options
):
    """The content of a file of the authors, and the encoder that it must be converted to."""
    config = TupeConfig(
        embed_dim=12, num_heads=3, num_layers=2, ffn_embed_dim=20, max_positions=max_positions,
        rel_pos=rel_pos, normalize_before=normalize_before,
    )  # fmt: skip
    encoder, parts = TupeEncoder(config), {"decoder.lm_head.": LMHead(12, VOCABULARY, "gelu")}
    if num_classes:
        head = TextHead(12, 12, num_classes)
        parts["classification_heads.sentence_classification_head."] = head
    for parameter in (p for part in (encoder, *parts.values()) for p in part.parameters()):
        torch.nn.init.normal_(parameter, std=0.3)
    model = their_names(encoder)
    for prefix, part in parts.items():
        model.update({prefix + name: tensor for name, tensor in part.state_dict().items()})
    model["decoder.sentence_encoder.embed_tokens.weight"] = model["decoder.lm_head.weight"]
    args = {
        "arch": "bert_base", "task": "masked_lm", "criterion": "masked_lm", "lr": [1e-4],
        "embedding_normalize": True, "encoder_normalize_before": normalize_before,
        "rel_pos": rel_pos, **SIZES, "max_positions": max_positions, **options,
    }  # fmt: skip
    state = {
        "args": argparse.Namespace(**args),
        "model": model,
        "optimizer_history": [{"num_updates": 1000, "criterion_name": "MaskedLmLoss",
                               "optimizer_name": "FP16Optimizer", "lr_scheduler_state": {}}],
        "extra_state": {"train_iterator": {"epoch": 9, "iterations_in_epoch": 5}},
        "last_optimizer_state": {"state": {0: torch.zeros(3)}},
    }  # fmt: skip
    return state, encoder


def codes_for(words):
    """Lines of fastBPE codes with which each of these words is a single subword."""
    pairs = [
        (word[:end], word[end] + ("</w>" if end == len(word) - 1 else ""))
        for word in words
        for end in range(1, len(word))
    ]
    return "".join(f"{left} {right} 7\n" for left, right in dict.fromkeys(pairs))


CODES = codes_for(line.split()[0] for line in WORDS)
