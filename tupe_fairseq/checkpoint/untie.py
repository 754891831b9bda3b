"""Turns a model with learned positions into TUPE: ``tupe-convert --untie``."""

import argparse
from dataclasses import replace

import torch

from tupe_fairseq.checkpoint.checkpoint import EMBEDDING, ENCODER, LM_HEAD, CheckpointError
from tupe_fairseq.checkpoint.model import Model
from tupe_fairseq.data.dictionary import BOS, PAD
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.modules.record import RECORD
from tupe_fairseq.options import POSITION_OPTIONS, TupeConfig, flag


def untie(model: Model) -> Model:
    """Keep words, layers and heads of a model with learned positions; add a new position bias.

    The mean position vector is added to word embeddings, the one of position 0 to ``<s>``. Queries
    and keys are scaled for TUPE's 1 / sqrt(2 d).
    """
    old = model.options
    extra = [flag(name) for name in POSITION_OPTIONS if getattr(old, name, None)]
    if old.position_encoding != "learned" or extra:
        raise CheckpointError(
            "--untie starts from learned positions without further options, but this model has "
            + " ".join([old.position_encoding, *extra])
        )
    options = argparse.Namespace(**{**vars(old), "position_encoding": "tupe"})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        encoder = TupeEncoder(TupeConfig.from_roberta_options(options))
    tensors = {name: tensor.clone() for name, tensor in model.tensors.items()}
    table, words = tensors.pop(f"{ENCODER}position_bias.pos.weight"), tensors[EMBEDDING]
    padding, cls = words[PAD].clone(), words[BOS] + table[0]
    words += table[1:].mean(0)
    words[BOS], words[PAD] = cls, padding
    for name, tensor in tensors.items():
        if name.startswith(ENCODER) and ".self_attn.in_proj_" in name:
            tensor[: len(tensor) // 3 * 2] *= 2**0.25  # once in the queries, once in the keys
    for name, tensor in encoder.state_dict().items():
        if name == RECORD or name.startswith("position_bias."):
            tensors[ENCODER + name] = tensor
    if not options.untie_weights_roberta:
        tensors[LM_HEAD + "weight"] = words
    remark = "TUPE-A WITH NEW POSITIONS: train it further before you use it"
    remarks = [*model.remarks, remark]
    return replace(model, tensors=tensors, options=options, remarks=remarks)
