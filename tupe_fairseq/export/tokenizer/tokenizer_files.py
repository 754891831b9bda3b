"""The parts that the files of all kinds of tokenizers have in common."""

import json
from typing import Any

from tupe_fairseq.export.tokenizer.symbols_in_order import SymbolsInOrder
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, MASK

# key of tokenizer_config.json, which transformers keeps
_UNLISTED = "unlisted_pieces"

_BOS, _PAD, _EOS, _UNK = BUILT_IN_SYMBOLS
_ROLES = {
    "bos_token": _BOS,
    "cls_token": _BOS,
    "eos_token": _EOS,
    "mask_token": MASK,
    "pad_token": _PAD,
    "sep_token": _EOS,
    "unk_token": _UNK,
}


def tokenizer_json(
    order: SymbolsInOrder,
    normalizers: list[dict[str, Any]],
    pre_tokenizers: list[dict[str, Any]],
    model: dict[str, Any],
    decoder: dict[str, Any],
) -> str:
    """The text of tokenizer.json.

    Args:
        order (SymbolsInOrder): the ids.
        normalizers, pre_tokenizers (list of dict): in their order.
        model, decoder (dict): as the ``tokenizers`` library writes them.
    """
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": order.symbols.index(symbol), **_special(symbol)}
            for symbol in sorted((*BUILT_IN_SYMBOLS, MASK), key=order.symbols.index)
        ],
        "normalizer": _sequence(normalizers, "normalizers"),
        "pre_tokenizer": _sequence(pre_tokenizers, "pretokenizers"),
        "post_processor": _post_processor(),
        "decoder": decoder,
        "model": model,
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def tokenizer_config_json(order: SymbolsInOrder, max_length: int) -> str:
    """The text of tokenizer_config.json.

    Args:
        order (SymbolsInOrder): the ids.
        max_length (int): the longest sequence of the model.
    """
    content = {
        **_ROLES,
        "added_tokens_decoder": {
            str(order.symbols.index(symbol)): _special(symbol)
            for symbol in sorted((*BUILT_IN_SYMBOLS, MASK), key=order.symbols.index)
        },
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": max_length,
        "padding_side": "right",
        "tokenizer_class": "PreTrainedTokenizerFast",
        "truncation_side": "right",
    }
    if order.unlisted:
        content[_UNLISTED] = len(order.unlisted)
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def special_tokens_map_json() -> str:
    """The text of special_tokens_map.json."""
    return json.dumps(_ROLES, indent=2) + "\n"


def count_unlisted(files: dict[str, str]) -> int:
    """How many ids after the dictionary's the tokenizer gives to pieces that it lacks.

    Args:
        files (dict): what :func:`build_tokenizer` gave.
    """
    return json.loads(files["tokenizer_config.json"]).get(_UNLISTED, 0)


def replace(pattern: str, content: str) -> dict[str, Any]:
    """The normalizer that puts ``content`` in the place of what a regular expression matches."""
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def replace_string(text: str, content: str) -> dict[str, Any]:
    """The normalizer or decoder that puts ``content`` in the place of ``text``."""
    return {"type": "Replace", "pattern": {"String": text}, "content": content}


def bpe_model(vocabulary: dict[str, int], pairs: list[list[str]], **changes: Any) -> dict[str, Any]:
    """The model that joins pairs.

    A symbol of more than a character that no pair makes never comes out of a text.

    Args:
        vocabulary (dict): symbol to id.
        pairs (list of pairs of str): the first is joined first.
        changes: other settings.
    """
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": _UNK,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        **changes,
        "vocab": vocabulary,
        "merges": pairs,
    }


def _special(symbol: str) -> dict[str, Any]:
    return {
        "content": symbol,
        "single_word": False,
        # fairseq's fill_mask drops the space before the mask, too
        "lstrip": symbol == MASK,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def _post_processor() -> dict[str, Any]:
    """``<s> A </s>``, and ``<s> A </s> </s> B </s>``, as fairseq's hub encodes two sentences."""

    def special(symbol: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": symbol, "type_id": 0}}

    def text(name: str) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": 0}}

    single = [special(_BOS), text("A"), special(_EOS)]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, special(_EOS), text("B"), special(_EOS)],
        "special_tokens": {
            symbol: {"id": symbol, "ids": [BUILT_IN_SYMBOLS.index(symbol)], "tokens": [symbol]}
            for symbol in (_BOS, _EOS)
        },
    }


def _sequence(parts: list[dict[str, Any]], name: str) -> dict[str, Any] | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return {"type": "Sequence", name: parts}
