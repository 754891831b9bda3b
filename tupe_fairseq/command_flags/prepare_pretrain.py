"""tupe-prepare-pretrain's flags."""

import argparse
import os

from tupe_fairseq.command_flags.checked_pretrain import check as check
from tupe_fairseq.command_flags.pretrain_defaults import FRACTION, VOCABULARY_DEFAULTS


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-prepare-pretrain",
        description="Clean raw text, drop duplicate lines, split it into train, valid and test, "
        "learn a SentencePiece vocabulary, encode, and binarize for fairseq's masked_lm task. "
        "If interrupted, run the same command again to resume.",
        epilog="example: tupe-prepare-pretrain --input wiki/*.xz books.txt --output-dir data "
        "--vocab-size 32768",
    )
    add = parser.add_argument
    add(
        "--input",
        nargs="+",
        required=True,
        metavar="FILE",
        help="UTF-8 text, plain, .gz, .xz or .bz2; a document ends at a blank line or at the end "
        "of the file; JSON lines or parquet with --text-field",
    )
    add(
        "--text-field",
        metavar="NAME",
        help="the text is this field of JSON lines (plain, .gz, .xz or .bz2), or this column of "
        "parquet files; each row is a document",
    )
    add(
        "--output-dir",
        required=True,
        metavar="DIR",
        help="output folder, the data argument of fairseq-train",
    )
    add(
        "--workers",
        type=int,
        default=os.cpu_count(),
        metavar="N",
        help="number of processes; does not change the result; default: one per core",
    )
    add = parser.add_argument_group("cleaning").add_argument
    add("--lowercase", action="store_true", help="make all text lower case")
    add(
        "--split-sentences",
        nargs="?",
        const="en",
        metavar="LANG",
        help="put each sentence on its own line, by the rules of a language (two letters; en if "
        "none is given); default: keep lines as they are",
    )
    add(
        "--min-chars",
        type=int,
        default=1,
        metavar="N",
        help="drop lines of fewer characters; default %(default)s",
    )
    add(
        "--max-chars",
        type=int,
        default=100_000,
        metavar="N",
        help="drop lines of more characters, at most 1000000; default %(default)s",
    )
    add(
        "--join-short",
        type=int,
        default=0,
        metavar="N",
        help="join lines shorter than this many characters with the next line of the document; "
        "default: never",
    )
    add = parser.add_argument_group("splits").add_argument
    add(
        "--valid-input",
        nargs="+",
        metavar="FILE",
        help="text of the valid split; its lines are dropped from train; default: documents of "
        "--input",
    )
    add("--test-input", nargs="+", metavar="FILE", help="the same for the test split")
    add(
        "--valid-fraction",
        type=float,
        metavar="F",
        help="fraction of --input's documents to use as valid, chosen by a hash; default "
        f"{FRACTION}",
    )
    add(
        "--test-fraction",
        type=float,
        metavar="F",
        help=f"the same for test; 0 for no test split; default {FRACTION}",
    )
    add(
        "--shards",
        type=int,
        default=1,
        metavar="N",
        help="distribute train over DIR/shard0, DIR/shard1, ...; fairseq-train loads one per "
        "epoch; default %(default)s, no shards",
    )
    add = parser.add_argument_group("vocabulary").add_argument
    add(
        "--vocab-size",
        type=int,
        metavar="N",
        help="number of dictionary entries, including <s>, <pad>, </s>, <unk> and <mask>; default "
        f"{VOCABULARY_DEFAULTS['vocab_size']}",
    )
    add(
        "--model-type",
        choices=["unigram", "bpe"],
        help=f"SentencePiece model type; default {VOCABULARY_DEFAULTS['model_type']}",
    )
    add(
        "--character-coverage",
        type=float,
        metavar="F",
        help="fraction of the characters that the vocabulary covers, from 0.98 to 1; default "
        f"{VOCABULARY_DEFAULTS['character_coverage']}",
    )
    add(
        "--sample-mb",
        type=int,
        metavar="N",
        help="MiB of train, sampled evenly, to learn the vocabulary from; a unigram "
        f"model needs about 30 times as much memory; default {VOCABULARY_DEFAULTS['sample_mb']}",
    )
    add("--sentencepiece-model", metavar="FILE", help="use this model instead of learning one")
    add(
        "--vocabulary",
        metavar="DIR",
        help="use the vocabulary of this folder, made by tupe-convert (or data made with it), as "
        "the converted model was trained with; lines are then only stripped, not treated further",
    )
    add(
        "--tokens-per-sample",
        type=int,
        default=512,
        metavar="N",
        help="the --tokens-per-sample of the training; lines of more than N - 2 pieces are split, "
        "because fairseq would skip them; default %(default)s",
    )
    return parser
