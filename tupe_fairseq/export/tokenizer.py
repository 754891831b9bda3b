"""Fast tokenizers for transformers, with the ids of a fairseq dictionary."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from tokenizers import normalizers as norm

from tupe_fairseq.data.dictionary import MASK, SPECIAL_TOKENS
from tupe_fairseq.data.text_files import UNPRINTABLE
from tupe_fairseq.files import read_json

BOS, PAD, EOS, UNK = SPECIAL_TOKENS
SPECIAL = (*SPECIAL_TOKENS, MASK)
# SentencePiece's symbol for a space
SPACE = "\u2581"
# Control characters that SentencePiece's rules nmt_* drop. Written as characters, because the
# library reads \x80 in a regular expression as a byte.
_DROPPED = "[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]+"
# What Python, and so fairseq's dictionary, treats as white space, and a token may contain
_WHITE_SPACE = "[ \t-\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
# Stands for a character that a step must not change; in Unicode it will never be a character
_STAND_IN = "\ufdd0"
# Put around characters that a SentencePiece model lacks, of which it makes one token
_BEGIN, _END = "\ufdd2", "\ufdd3"


def build_tokenizer(
    record: dict[str, Any], paths: Sequence[str], symbols: Sequence[str], max_length: int
):
    """A transformers tokenizer, and the number of its tokens that the dictionary lacks.

    In fairseq these are ``<unk>``; here they have the ids after the dictionary's.

    Args:
        record: the content of vocabulary.json, of kind sentencepiece or gpt2.
        paths: SentencePiece's model, or GPT-2's encoder.json and vocab.bpe.
        symbols: the symbols of fairseq's dictionary, with ``<mask>``.
    """
    from transformers import PreTrainedTokenizerFast

    kind = record["kind"]
    if kind not in ("sentencepiece", "gpt2"):
        raise ValueError(
            f"a checkpoint with a {kind} vocabulary cannot be exported; use it with fairseq, "
            "tupe-predict or tupe-encode"
        )
    make = _from_sentencepiece if kind == "sentencepiece" else _from_gpt2
    tokenizer, size = make(symbols, *paths)
    if record.get("clean"):
        steps = [*_cleaning(bool(record.get("lowercase"))), tokenizer.normalizer]
        tokenizer.normalizer = norm.Sequence(steps)
    special = [AddedToken(s, special=True, normalized=False, lstrip=s == MASK) for s in SPECIAL]
    tokenizer.add_special_tokens(sorted(special, key=lambda token: symbols.index(token.content)))
    template = processors.TemplateProcessing(
        single=f"{BOS} $A {EOS}",
        pair=f"{BOS} $A {EOS} {EOS} $B {EOS}",
        special_tokens=[(BOS, symbols.index(BOS)), (EOS, symbols.index(EOS))],
    )
    tokenizer.post_processor = template
    if kind == "gpt2":  # offsets of tokens without the space before them
        trimmed = processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
        tokenizer.post_processor = processors.Sequence([trimmed, template])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        padding_side="right",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
        **{"bos_token": BOS, "cls_token": BOS, "eos_token": EOS, "sep_token": EOS},
        **{"pad_token": PAD, "unk_token": UNK, "mask_token": MASK},
    )
    return fast, size - len(symbols)


def _cleaning(lowercase: bool) -> list[norm.Normalizer]:
    """The steps of ``clean_line``. (Special tokens have been split off before.)"""
    return [
        norm.Replace(Regex(f"[{UNPRINTABLE}]+"), ""),
        norm.NFC(),
        norm.Replace(Regex(_WHITE_SPACE), " "),
        norm.Strip(),
        *([norm.Lowercase()] if lowercase else []),
        norm.Replace(Regex(f"(?i)<(?={MASK[1:]})"), "< "),
    ]


# ---- SentencePiece ------------------------------------------------------------------------------


def _from_sentencepiece(symbols: Sequence[str], path: str) -> tuple[Tokenizer, int]:
    from sentencepiece import sentencepiece_model_pb2

    with open(path, "rb") as file:
        proto = sentencepiece_model_pb2.ModelProto.FromString(file.read())
    types = proto.SentencePiece
    if any(p.type == types.USER_DEFINED and p.piece not in SPECIAL for p in proto.pieces):
        raise ValueError(
            f"{path} has user-defined symbols, which a fast tokenizer cannot split off"
        )
    scores = {
        p.piece: p.score
        for p in proto.pieces
        if p.type in (types.NORMAL, types.BYTE) and p.piece not in SPECIAL
    }
    spec, trainer = proto.normalizer_spec, proto.trainer_spec
    words, steps, decoding = _with_unlisted(symbols, scores), _normalizers(spec), []
    if trainer.model_type == trainer.UNIGRAM and not trainer.treat_whitespace_as_suffix:
        best, characters = max(scores.values()), {*"".join(scores)}
        # fairseq-preprocess lists words of characters that the model lacks, too
        lacking = {x for x in words if x not in SPECIAL and not characters & {*x}}
        if lacking:
            known = "".join(map(re.escape, sorted(characters))) + _WHITE_SPACE[1:-2]
            begin, end = f"(?<![^{known}])(?=[^{known}])", f"(?<=[^{known}{_BEGIN}])(?![^{known}])"
            steps += [norm.Replace(Regex(begin), _BEGIN), norm.Replace(Regex(end), _END)]
            decoding = [decoders.Replace(_BEGIN, ""), decoders.Replace(_END, "")]
        # another word that the model lacks ends with a space here, so that no text contains it
        names = {x: f"{x} " for x in words if x not in SPECIAL and x not in scores}
        names.update((x, f"{_BEGIN}{x}{_END}") for x in lacking)
        vocabulary = [(names.get(word, word), scores.get(word, best)) for word in words]
        model = models.Unigram(vocabulary, symbols.index(UNK), trainer.byte_fallback)
    elif trainer.model_type == trainer.BPE and not trainer.treat_whitespace_as_suffix:
        merges = [
            (piece[:end], piece[end:])
            for piece in sorted(scores, key=scores.__getitem__, reverse=True)
            for end in range(1, len(piece))
            if piece[:end] in scores and piece[end:] in scores
        ]
        model = _bpe(words, merges, fuse_unk=True, byte_fallback=trainer.byte_fallback)
    else:
        raise ValueError(
            f"{path} is a SentencePiece model of characters or words, or with spaces at the end of "
            "tokens; only unigram and bpe with spaces at the beginning can be exported"
        )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = norm.Sequence(steps)
    scheme = {"prepend_scheme": "always" if spec.add_dummy_prefix else "never"}
    # splitting at words is faster, but only possible if no token spans several words
    split = not any(SPACE in piece[1:] for piece in scores)
    splits = [
        pre_tokenizers.Metaspace(SPACE, split=split, **scheme),
        pre_tokenizers.Split(Regex(_WHITE_SPACE), "removed"),
    ]
    if split and spec.add_dummy_prefix and spec.remove_extra_whitespaces:
        # then the offsets of tokens do not include the space before them
        splits.insert(0, pre_tokenizers.Split(" ", "removed"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    spaces = decoders.Metaspace(SPACE, **scheme)
    of_bytes = [decoders.ByteFallback(), decoders.Fuse()] if trainer.byte_fallback else []
    tokenizer.decoder = decoders.Sequence([*of_bytes, *decoding, spaces])
    return tokenizer, len(words)


def _normalizers(spec: Any) -> list[norm.Normalizer]:
    """SentencePiece's normalization rules, which the library applies grapheme by grapheme.

    There, a rule for the first character of a grapheme hides a rule for more of it, and drops the
    rest. So NFKC, if the rules are named after it, comes first. Then hardly any rule is left for
    a character that shares its grapheme with others.
    """
    steps: list[norm.Normalizer] = []
    if spec.precompiled_charsmap:
        if spec.name.startswith("nmt_"):
            steps += [norm.Replace(Regex(_DROPPED), ""), norm.Replace(SPACE, " ")]
        if "nfkc" in spec.name:
            steps += _except("\uff5e", norm.NFKC())
        if spec.name.endswith("_cf"):
            steps += _except("\u0130", norm.Lowercase())
        steps.append(norm.Precompiled(spec.precompiled_charsmap))
    if spec.remove_extra_whitespaces:
        steps.append(norm.Replace(Regex(r"\A +| +\z|(?<= ) +"), ""))
    return steps


def _except(character: str, step: norm.Normalizer) -> list[norm.Normalizer]:
    """A step that leaves one character unchanged, as SentencePiece's rules do."""
    return [norm.Replace(character, _STAND_IN), step, norm.Replace(_STAND_IN, character)]


# ---- GPT-2 --------------------------------------------------------------------------------------


def _from_gpt2(symbols: Sequence[str], encoder_json: str, vocab_bpe: str) -> tuple[Tokenizer, int]:
    """Byte-level BPE, whose ids are the words of fairseq's dictionary."""
    with open(encoder_json, encoding="utf-8") as file:
        tokens = {str(number): token for token, number in json.load(file).items()}
    with open(vocab_bpe, encoding="utf-8") as file:
        merges = [tuple(line.split()) for line in file.read().split("\n")[1:-1]]
    # a byte that no merge needs and the dictionary lacks is unknown
    needed = {part for left, right in merges for part in (left, right, left + right)}
    words = _with_unlisted(symbols, (number for number in tokens if tokens[number] in needed))
    tokenizer = Tokenizer(_bpe([tokens.get(word, word) for word in words], merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, len(words)


def _with_unlisted(symbols: Sequence[str], tokens: Iterable[str]) -> list[str]:
    listed = set(symbols)
    return [*symbols, *(token for token in tokens if token not in listed)]


def _bpe(words: Sequence[str], merges: list[tuple[str, ...]], **options: bool) -> models.BPE:
    vocabulary = {word: number for number, word in enumerate(words)}
    return models.BPE(vocabulary, merges, unk_token=UNK, **options)


# ---- From tokenizer.json to dict.txt ------------------------------------------------------------


def read_tokenizer(path: str) -> Tokenizer:
    try:
        return Tokenizer.from_file(path)
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(f"{path} is damaged: {error}") from error


def read_cleaning(path: str) -> dict[str, bool]:
    """What vocabulary.json said of cleaning, from the tokenizer.json that was made with it."""
    normalizer = read_json(path).get("normalizer") or {}
    steps = [step["type"] for step in normalizer.get("normalizers", ())]
    return {"clean": "NFC" in steps, "lowercase": "NFC" in steps and "Lowercase" in steps}


def dictionary_words(path: str, unlisted: int, numbers: dict[str, Any] | None) -> list[str]:
    """The words of the dict.txt that a tokenizer.json was made from, in order.

    Args:
        unlisted: the number of tokens at the end that dict.txt lacks.
        numbers: the ids of GPT-2's tokens, if the words of dict.txt are such ids.
    """
    tokenizer = read_tokenizer(path)
    added = [x.content for x in tokenizer.get_added_tokens_decoder().values()]
    added = [token for token in added if token not in SPECIAL]
    if added:
        raise ValueError(
            f"tokens were added to {path} ({', '.join(added[:3])}), which fairseq's vocabularies "
            "cannot split off; convert the model as it was before"
        )
    ids = tokenizer.get_vocab()
    words = sorted(ids, key=ids.__getitem__)
    words = words[: len(words) - unlisted]
    if tuple(words[:4]) != SPECIAL_TOKENS or [*map(ids.get, words)] != [*range(len(words))]:
        raise ValueError(
            f"{path} does not have the ids of a fairseq dictionary; give --dictionary, its dict.txt"
        )
    # fairseq adds <mask> if dict.txt does not list it
    words = words[4:-1] if words[-1] == MASK else words[4:]
    numbers = {**(numbers or {}), MASK: MASK}
    words = [x.strip(f" {_BEGIN}{_END}") for x in words]
    return [str(numbers.get(word, word)) for word in words]
