"""The flags for the files of a vocabulary, and their checks."""

import argparse

from tupe_fairseq.command_flags.given_paths import check_is_file
from tupe_fairseq.data.tokenizer import KINDS

#: kind of vocabulary to its flags, in the order of the kind's files
FLAGS_OF_KIND = {
    "fastbpe": ("bpe_codes",),
    "gpt2": ("gpt2_encoder_json", "gpt2_vocab_bpe"),
    "sentencepiece": ("sentencepiece_model",),
}
#: the choices, for messages
CHOICES = "--bpe-codes; --gpt2-encoder-json and --gpt2-vocab-bpe; or --sentencepiece-model"


def add_vocabulary_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags, none of which is required."""
    add = parser.add_argument_group("vocabulary (the files of one kind)").add_argument
    add("--bpe-codes", metavar="FILE", help="of the TUPE authors: their fastBPE codes")
    add("--gpt2-encoder-json", metavar="FILE", help="of the public RoBERTa: GPT-2's encoder.json")
    add("--gpt2-vocab-bpe", metavar="FILE", help="with it: GPT-2's vocab.bpe")
    add(
        "--sentencepiece-model",
        metavar="FILE",
        help="the SentencePiece model with which the text was encoded",
    )


def given_vocabulary(args: argparse.Namespace) -> tuple[str, dict[str, str]] | None:
    """The kind that was given, and the path of each of its files by the name that it gets in OUT.

    Raises:
        OSError: if a file is missing.
        ValueError: if only a part of a kind is given, or more than one kind.
    """
    given = {
        kind: [name for name in names if getattr(args, name)]
        for kind, names in FLAGS_OF_KIND.items()
    }
    kinds = [kind for kind, names in given.items() if names]
    if not kinds:
        return None
    if len(kinds) > 1 or len(given[kinds[0]]) < len(FLAGS_OF_KIND[kinds[0]]):
        flags = [_flag(name) for names in given.values() for name in names]
        raise ValueError(f"{', '.join(flags)}: give the files of one kind, {CHOICES}")
    (kind,) = kinds
    paths = [getattr(args, name) for name in FLAGS_OF_KIND[kind]]
    for name, path in zip(FLAGS_OF_KIND[kind], paths):
        check_is_file(_flag(name), path)
    return kind, dict(zip(KINDS[kind][0], paths))


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
