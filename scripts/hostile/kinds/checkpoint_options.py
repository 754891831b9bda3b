"""Checkpoints whose options or tensors are not what they should be."""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from case import REFUSED, SAME, VALUE, Case
from damage import ODD_VALUES

from kinds.checkpoint_bytes import _loaded

KIND = "checkpoint options"
_READERS = (
    "encode", "score", "TupeRobertaModel", "finetune --dry-run", "export", "plot", "extend",
)  # fmt: skip
_OPTIONS = (
    "arch", "task", "encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim",
    "encoder_attention_heads", "activation_fn", "pooler_activation_fn", "max_positions",
    "position_encoding", "rel_pos", "rel_pos_buckets", "max_rel_pos", "tie_cls", "untie_cls",
    "encoder_normalize_before", "untie_weights_roberta", "dropout", "bpe", "user_dir", "data",
    "attn_impl", "compile_layers", "quant_noise_pq", "encoder_layerdrop", "_name",
    "pooling",
)  # fmt: skip
_INJECTED = (
    "--user-dir=evil", "evil", "__import__('os').mkdir('CODE-RAN')", "gelu --user-dir evil",
    "tupe\n--user-dir\nevil", "fconv", "wav2vec2", "a" * 100_000, "\u202e\x1b]0;x\x07", "..",
)  # fmt: skip
_WEIGHT = "encoder.sentence_encoder.layers.0.fc1.weight"
_EMBEDDING = "encoder.sentence_encoder.embed_tokens.weight"


def cases(scenes: Path, draw: random.Random) -> Iterator[Case]:
    """Each option with a value of another type, and with a text that would be code."""
    sound = _loaded((scenes / "pretrained" / "model.pt").read_bytes())
    number = 0
    for option in _OPTIONS:
        values = [*draw.sample(ODD_VALUES, 3), draw.choice(_INJECTED)]
        for value in values:
            reader = _READERS[number % len(_READERS)]
            number += 1
            shown = "10**400" if value == 10**400 else repr(value)[:40]
            # an option of the model that is taken at another value gives another model
            yield _of_option(sound, option, value, f"{option} is {shown}", reader, VALUE)
    for name, state, right in _states(sound):
        for reader in ("encode", "TupeRobertaModel"):
            yield _case(name, state, reader, right)
    for reader in ("RobertaModel", "fairseq-train --restore-file"):
        for value in ("fconv", "wav2vec2", "../evil"):
            yield _of_option(sound, "arch", value, f"arch is {value}", reader, SAME)


def _of_option(sound: dict, option: str, value: Any, name: str, reader: str, right: str) -> Case:
    """With a package beside the checkpoint, which a flag of fairseq's would import."""
    scene = "finished" if reader.startswith("finetune") else "pretrained"

    def change(folder: Path) -> None:
        state = sound
        if scene == "finished":  # whose model is another one
            state = _loaded((folder / "model.pt").read_bytes())
        state = {**state, "cfg": {"model": copy.copy(state["cfg"]["model"])}}
        setattr(state["cfg"]["model"], option, value)
        torch.save(state, folder / "model.pt")
        (folder / "evil").mkdir()
        (folder / "evil" / "__init__.py").write_text("import os\nos.mkdir('CODE-RAN')\n")

    return Case(KIND, name, scene, change, (reader,), right)


def _case(name: str, state: Any, reader: str, right: str) -> Case:
    def change(folder: Path) -> None:
        torch.save(state, folder / "model.pt")

    return Case(KIND, name, "pretrained", change, (reader,), right)


def _states(sound: dict) -> Iterator:
    """What a state may lack, or have too much of."""
    for name in sound:
        yield (
            f"without {name}",
            {key: value for key, value in sound.items() if key != name},
            SAME,
        )
        for value in (None, [], 3, "x", torch.ones(3)):
            shown = type(value).__name__
            yield f"{name} is a {shown}", {**sound, name: value}, SAME
    model = sound["model"]

    def with_tensor(name: str, tensor: Any) -> dict:
        return {**sound, "model": {**model, name: tensor}}

    weight = model[_WEIGHT]
    odd = {
        "NaN": torch.full_like(weight, float("nan")),
        "infinity": torch.full_like(weight, float("inf")),
        "whole numbers": torch.ones_like(weight, dtype=torch.int64),
        "bool": torch.ones_like(weight, dtype=torch.bool),
        "complex": torch.ones_like(weight, dtype=torch.complex64),
        "transposed": weight.t().contiguous(),
        "one number": torch.tensor(1.0),
        "empty": torch.empty(0, weight.size(1)),
        "sparse": weight.to_sparse(),
        "list": weight.tolist(),
        "of 17 dimensions": weight.reshape(*[1] * 15, *weight.shape),
    }
    for name, tensor in odd.items():
        yield f"{_WEIGHT}: {name}", with_tensor(_WEIGHT, tensor), REFUSED
    yield "a weight in half precision", with_tensor(_WEIGHT, weight.half()), VALUE
    yield "an embedding of more words", with_tensor(_EMBEDDING, torch.ones(500, 16)), REFUSED
    yield "an embedding of fewer words", with_tensor(_EMBEDDING, torch.ones(50, 16)), REFUSED
    yield "an embedding of another width", with_tensor(_EMBEDDING, torch.ones(115, 18)), REFUSED
    yield "a tensor too many", with_tensor("encoder.more", torch.ones(3)), SAME
    yield "a name above", with_tensor("../../above", torch.ones(3)), SAME
    layers = "encoder.sentence_encoder.layers.999999.fc1.weight"
    yield "a layer too many", with_tensor(layers, weight), REFUSED
    yield (
        "a tensor too few",
        {**sound, "model": {k: v for k, v in model.items() if k != _WEIGHT}},
        REFUSED,
    )
