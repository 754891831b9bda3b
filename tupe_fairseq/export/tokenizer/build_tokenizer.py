"""The files of a fast tokenizer, from a vocabulary's own files and fairseq's dictionary."""

from collections.abc import Callable, Sequence

from tupe_fairseq.export.tokenizer.from_fastbpe import fastbpe_tokenizer
from tupe_fairseq.export.tokenizer.from_gpt2 import gpt2_tokenizer
from tupe_fairseq.export.tokenizer.from_sentencepiece import sentencepiece_tokenizer
from tupe_fairseq.export.tokenizer.symbols_in_order import check_symbols
from tupe_fairseq.export.tokenizer.tokenizer_files import (
    special_tokens_map_json,
    tokenizer_config_json,
)

_MAKERS: dict[str, Callable] = {
    "fastbpe": fastbpe_tokenizer,
    "gpt2": gpt2_tokenizer,
    "sentencepiece": sentencepiece_tokenizer,
}


def build_tokenizer(
    kind: str,
    paths: Sequence[str],
    symbols: Sequence[str],
    max_length: int,
    padded_vocabulary: bool = False,
    unlisted: bool = False,
) -> dict[str, str]:
    """The content of each file, by its name: tokenizer.json, and the two that go with it.

    The ids are those of fairseq's dictionary, and text gets the ids that the hub interface gives.

    Args:
        kind (str): of the vocabulary.
        paths (sequence of str): the vocabulary's files, in the order of the kind's.
        symbols (sequence of str): the dictionary's, in the order of their ids, with the built-in
            ones and the mask.
        max_length (int): the longest sequence of the model.
        padded_vocabulary (bool): whether words with which fairseq-preprocess filled the dictionary
            up are allowed; they keep their ids, and no text gets them.
        unlisted (bool): whether pieces that the dictionary lacks are allowed.  fairseq takes them
            for ``<unk>``; here they have the ids after the dictionary's, and the model must have
            copies of the row of ``<unk>`` there; tokenizer_config.json says how many.
    Returns:
        dict: file name to text.
    Raises:
        OSError, ValueError: if a file cannot be read, is not of the kind, or does not fit the
            dictionary; if a tokenizer could not agree with it.
        ModuleNotFoundError: if a package is missing that reads the vocabulary.
    """
    order = check_symbols(symbols, padded_vocabulary)
    order, content = _MAKERS[kind](order, *paths, unlisted)
    return {
        "tokenizer.json": content,
        "tokenizer_config.json": tokenizer_config_json(order, max_length),
        "special_tokens_map.json": special_tokens_map_json(),
    }
