"""The flags for the files of a vocabulary."""

import argparse

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
