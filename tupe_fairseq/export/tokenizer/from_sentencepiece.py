"""A tokenizer with the pieces of a SentencePiece model."""

import base64
from typing import Any

from tupe_fairseq.export.tokenizer.symbols_in_order import SymbolsInOrder, with_unlisted
from tupe_fairseq.export.tokenizer.tokenizer_files import (
    bpe_model,
    replace,
    replace_string,
    tokenizer_json,
)
from tupe_fairseq.files.names import BUILT_IN_SYMBOLS, MASK

# SentencePiece's mark of a space
_SPACE = "\u2581"
# The control characters that its rules named "nmt" drop.  Here and below as themselves: in a
# regular expression the library takes \x80 for a byte.
_DROPPED = "[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]+"
# What Python and so fairseq's dictionary take for white space, and may be in a piece.
_WHITE_SPACE = "[\t-\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
# Stands for a character that a step must not change.  It is in no text: Unicode says that
# it never will be a character.
_STAND_IN = "\ufdd0"


def sentencepiece_tokenizer(order: SymbolsInOrder, path: str, allow_unlisted: bool):
    """The dictionary with the pieces that it lacks, and the text of tokenizer.json.

    Args:
        order (SymbolsInOrder): the dictionary.
        path (str): the SentencePiece model.
        allow_unlisted (bool): whether the model may have pieces that the dictionary lacks.
    Raises:
        ValueError: if a tokenizer cannot split text as this model does.
        ModuleNotFoundError: if sentencepiece or protobuf is not installed.
    """
    proto = _read_proto(path)
    kinds = proto.SentencePiece
    scores = {}
    for piece in proto.pieces:
        known = piece.piece not in BUILT_IN_SYMBOLS and piece.piece != MASK
        if known and piece.type in (kinds.NORMAL, kinds.BYTE):
            scores[piece.piece] = piece.score
        elif known and piece.type == kinds.USER_DEFINED:
            raise ValueError(
                f"{path} has the symbol {piece.piece}, which SentencePiece takes whole out of any "
                "text; a tokenizer cannot do this"
            )
    order = with_unlisted(order, scores, path, allow_unlisted)
    make = {1: _unigram, 2: _bpe}.get(proto.trainer_spec.model_type)
    if make is None or proto.trainer_spec.treat_whitespace_as_suffix:
        raise ValueError(
            f"{path} is a SentencePiece model of characters or words, or with spaces at the end of "
            "pieces; a tokenizer can be made of the types unigram and bpe with spaces at the begin"
        )
    is_byte = proto.trainer_spec.byte_fallback
    content = tokenizer_json(
        order,
        _normalizers(proto.normalizer_spec),
        _pre_tokenizers(proto.normalizer_spec, scores),
        make(order, scores, is_byte),
        _decoder(proto.normalizer_spec, is_byte),
    )
    return order, content


def _read_proto(path: str) -> Any:
    from sentencepiece import sentencepiece_model_pb2

    with open(path, "rb") as file:
        return sentencepiece_model_pb2.ModelProto.FromString(file.read())


def _normalizers(spec: Any) -> list[dict[str, Any]]:
    """SentencePiece's rules, which the library applies to one grapheme after another.

    There, a rule for the first character of a grapheme hides one for more of it and drops the
    rest.  So NFKC comes first, of which the rules' names speak: then hardly a rule is left for a
    character with others in its grapheme.
    """
    steps = []
    if spec.precompiled_charsmap:
        if spec.name.startswith("nmt_"):
            steps.append(replace(_DROPPED, ""))
        if "nfkc" in spec.name:
            steps += _but_for("\uff5e", {"type": "NFKC"})
        if spec.name.endswith("_cf"):
            steps += _but_for("\u0130", {"type": "Lowercase"})
        rules = base64.b64encode(spec.precompiled_charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": rules})
    if spec.remove_extra_whitespaces:
        steps.append(replace(r"\A +| +\z|(?<= ) +", ""))
    return steps


def _but_for(character: str, step: dict[str, Any]) -> list[dict[str, Any]]:
    """A step, and a character that SentencePiece's rules keep where it does not."""
    return [replace_string(character, _STAND_IN), step, replace_string(_STAND_IN, character)]


def _pre_tokenizers(spec: Any, pieces: dict[str, float]) -> list[dict[str, Any]]:
    within = any(_SPACE in piece[1:] for piece in pieces)
    return [
        {
            "type": "Metaspace",
            "replacement": _SPACE,
            "prepend_scheme": "always" if spec.add_dummy_prefix else "never",
            # one word after another is faster, if no piece goes beyond a word
            "split": not within,
        },
        {
            "type": "Split",
            "pattern": {"Regex": _WHITE_SPACE},
            "behavior": "Removed",
            "invert": False,
        },
    ]


def _decoder(spec: Any, is_byte: bool) -> dict[str, Any]:
    spaces = {
        "type": "Metaspace",
        "replacement": _SPACE,
        "prepend_scheme": "always" if spec.add_dummy_prefix else "never",
        "split": True,
    }
    if not is_byte:
        return spaces
    return {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}, spaces]}


def _unigram(order: SymbolsInOrder, scores: dict[str, float], is_byte: bool) -> dict[str, Any]:
    """Symbols that are not pieces have a space at their end, which is never in a text's pieces."""
    best = max(scores.values())
    specials = {*BUILT_IN_SYMBOLS, MASK}
    vocabulary = []
    for symbol in (*order.symbols, *order.unlisted):
        if symbol in scores or symbol in specials:
            vocabulary.append([symbol, scores.get(symbol, best)])
        else:
            vocabulary.append([symbol + " ", best])
    return {"type": "Unigram", "unk_id": 3, "byte_fallback": is_byte, "vocab": vocabulary}


def _bpe(order: SymbolsInOrder, scores: dict[str, float], is_byte: bool) -> dict[str, Any]:
    """The pairs that join to a piece, the best piece first."""
    pairs = [
        [piece[:end], piece[end:]]
        for piece in sorted(scores, key=scores.__getitem__, reverse=True)
        for end in range(1, len(piece))
        if piece[:end] in scores and piece[end:] in scores
    ]
    vocabulary = {symbol: id_ for id_, symbol in enumerate([*order.symbols, *order.unlisted])}
    return bpe_model(vocabulary, pairs, fuse_unk=True, byte_fallback=is_byte)
