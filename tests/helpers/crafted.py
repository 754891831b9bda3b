"""Small checkpoints as an attacker could make them: odd options, and objects that run code."""

import argparse
import copy
import os

import torch

from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.checkpoint.checkpoint import symbols_of, vocabulary_version
from tupe_fairseq.modules.heads import LMHead

LINES = [f"word{number} 1" for number in range(7)]
OPTIONS = {
    "arch": "tupe_roberta_tiny", "task": "masked_lm", "criterion": "masked_lm",
    "encoder_layers": 2, "encoder_embed_dim": 8, "encoder_ffn_embed_dim": 12,
    "encoder_attention_heads": 2, "activation_fn": "gelu", "pooler_activation_fn": "tanh",
    "max_positions": 16, "tokens_per_sample": 16, "encoder_normalize_before": False,
    "untie_weights_roberta": False, "position_encoding": "tupe", "rel_pos": False,
    "tie_cls": False, "dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.0,
}  # fmt: skip
E = "encoder.sentence_encoder."


def whole_state():
    """A small checkpoint of our own, as dicts; ``save`` makes the options a Namespace."""
    config = TupeConfig(embed_dim=8, num_heads=2, num_layers=2, ffn_embed_dim=12, max_positions=16)
    symbols = symbols_of(LINES)
    lm_head = LMHead(8, len(symbols), "gelu").state_dict()
    model = {E + name: tensor for name, tensor in TupeEncoder(config).state_dict().items()}
    model |= {"encoder.lm_head." + name: tensor for name, tensor in lm_head.items()}
    model[E + "embed_tokens.weight"] = lm_head["weight"]
    model["encoder.vocabulary_version"] = vocabulary_version(symbols)
    return {
        "args": None,
        "cfg": {"model": dict(OPTIONS)},
        "model": model,
        "optimizer_history": [{"num_updates": 3, "criterion_name": "", "optimizer_name": "",
                               "lr_scheduler_state": {}}],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }  # fmt: skip


def save(state, path, form="namespace", **options):
    """Write a state whose options are those of cfg.model, changed by ``options``."""
    state = copy.copy(state)
    given = {**state["cfg"]["model"], **options}
    if form == "args":
        state.update(args=argparse.Namespace(**given), cfg=None)
    elif form == "hydra":
        parts = {name: {"_name": given.pop(name)} for name in ("task", "criterion")}
        given["_name"] = given.pop("arch")
        state.update(cfg={"model": given, **parts})
    else:
        state.update(cfg={"model": argparse.Namespace(**given)})
    torch.save(state, path)
    return path


def folder_with(path, **options):
    """A folder with model.pt and dict.txt."""
    path.mkdir(exist_ok=True)
    (path / "dict.txt").write_text("\n".join(LINES) + "\n")
    save(whole_state(), path / "model.pt", **options)
    return path


class Touch:
    """Makes a folder when it is unpickled without restrictions."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)
