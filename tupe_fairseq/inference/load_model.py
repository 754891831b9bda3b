"""Loads a trained encoder and its vocabulary; needs torch alone, and runs no code of the file."""

import argparse
import os
from typing import Any

from torch import Tensor, nn

from tupe_fairseq.checkpoint.allowed_options import own_options
from tupe_fairseq.checkpoint.checkpoint import loading, read
from tupe_fairseq.checkpoint.state_dict import (
    EMBEDDING,
    ENCODER,
    VOCABULARY,
    symbols_of,
    vocabulary_version,
)
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.files.names import DICTIONARY
from tupe_fairseq.files.repeated import first_repeated
from tupe_fairseq.options import TupeConfig
from tupe_fairseq.text.dictionary_file import listed_words

# What earlier versions, or conversion, left to the architecture's preset.
_PRESET = {
    "activation_fn": "gelu",
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "activation_dropout": 0.0,
    "encoder_normalize_before": False,
}
# Options that change only how the model is computed, and may not work on this machine.
_HERE = {"attn_impl": "auto", "compile_layers": False, "unpad": False}


class WordEncoder(TupeEncoder):
    """A :class:`TupeEncoder` with its word embedding, under the names of a checkpoint."""

    def __init__(self, config: TupeConfig, num_symbols: int):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(num_symbols, config.embed_dim)


def load_model(path: str, data: str) -> tuple[WordEncoder, list[str]]:
    """A checkpoint's encoder in evaluation mode on the CPU, and its symbols in order.

    Args:
        path (str): a checkpoint of tupe_roberta, pre-trained or fine-tuned.
        data (str): the folder with its dict.txt, or input0/dict.txt.
    Raises:
        FileNotFoundError: if the checkpoint or dict.txt is missing.
        CheckpointError: if the file is refused, damaged, or not of tupe_roberta.
        ValueError: if dict.txt is not the checkpoint's.
    """
    checkpoint = read(path)
    options = own_options(checkpoint.options, checkpoint.tensors, path)
    symbols = _symbols(path, data)
    with loading(path):
        check_vocabulary(checkpoint.tensors, symbols)
        encoder = build_encoder(options, checkpoint.tensors, len(symbols))
    return encoder, symbols


def build_encoder(
    options: dict[str, Any], tensors: dict[str, Tensor], num_symbols: int
) -> WordEncoder:
    """The encoder of these options, in evaluation mode on the CPU, with the file's weights.

    Args:
        options (dict): those of tupe_roberta; what the file left out has the preset's value.
        tensors (dict): the state dict, under the names of tupe_roberta.
        num_symbols (int): V, those of the dictionary, ``<mask>`` included.
    Raises:
        AttributeError, LookupError, RuntimeError, TypeError, ValueError: if they do not fit.
    """
    config = TupeConfig.from_roberta_options(argparse.Namespace(**{**_PRESET, **options, **_HERE}))
    encoder = WordEncoder(config, num_symbols)
    own = {name: tensor for name, tensor in tensors.items() if name.startswith(ENCODER)}
    encoder.load_state_dict({name[len(ENCODER) :]: tensor for name, tensor in own.items()})
    return encoder.eval()


def check_vocabulary(tensors: dict[str, Tensor], symbols: list[str]) -> None:
    """Refuse symbols that are not those of the checkpoint.

    Raises:
        ValueError: if they are of another number, or not those that it records.
    """
    rows, recorded = tensors[EMBEDDING].size(0), tensors.get(VOCABULARY)
    if rows != len(symbols):
        raise ValueError(
            f"the checkpoint's word embedding has {rows} rows, but dict.txt and the built-in "
            f"symbols are {len(symbols)}; use the dict.txt that the checkpoint was trained with"
        )
    # half precision cannot hold the record
    if recorded is not None and not recorded.is_floating_point():
        if recorded.item() != vocabulary_version(symbols).item():
            raise ValueError(
                "the checkpoint was trained with a different vocabulary of the same size; use its "
                "own dict.txt, and data made with it"
            )


def _symbols(path: str, data: str) -> list[str]:
    for name in (DICTIONARY, os.path.join("input0", DICTIONARY)):
        found = os.path.join(data, name)
        if os.path.isfile(found):
            return symbols_in(found)
    raise FileNotFoundError(
        f"{os.path.join(data, 'dict.txt')} is missing; give --data, the folder that {path} was "
        "trained with"
    )


def symbols_in(dictionary: str) -> list[str]:
    """The symbols of fairseq's dictionary for a dict.txt, ``<mask>`` included.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no dictionary.
    """
    try:
        return _distinct(symbols_of(f"{word} 1" for word in listed_words(dictionary)))
    except ValueError as error:
        raise ValueError(f"{dictionary} is not a dictionary of fairseq's: {error}") from error


def _distinct(symbols: list[str]) -> list[str]:
    twice = first_repeated(symbols)
    if twice is not None:
        raise ValueError(f"it lists {twice!r} twice, or as fairseq does itself")
    return symbols
