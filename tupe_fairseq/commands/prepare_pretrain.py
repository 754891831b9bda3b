"""tupe-prepare-pretrain: turn raw text into a data folder for fairseq's masked_lm."""

import argparse
import logging
import os
import shutil
from typing import List, Optional

from tupe_fairseq.commands.arguments import in_range, no_separators
from tupe_fairseq.commands.first_training import first_training
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.steps import Steps, recorded_settings
from tupe_fairseq.programs.command import show
from tupe_fairseq.text.cleaning import Cleaner
from tupe_fairseq.text.data_report import summary
from tupe_fairseq.text.foreign_vocabulary import ForeignVocabulary
from tupe_fairseq.text.losses import unknown_pieces
from tupe_fairseq.text.not_text import refuse_what_is_no_text
from tupe_fairseq.text.pieces import Pieces
from tupe_fairseq.text.pipeline import Pipeline
from tupe_fairseq.text.row_texts import check_texts
from tupe_fairseq.text.settings import input_files, settings, text_files, used_by
from tupe_fairseq.text.treatment import TextTreatment

logger = logging.getLogger("tupe-prepare-pretrain")

# Flags that have no effect with a given vocabulary. Their defaults are filled in later, so that a
# given flag can be told from a default.
_VOCABULARY = {
    "vocab_size": 32768,
    "model_type": "unigram",
    "character_coverage": 0.9995,
    "sample_mb": 64,
}
_FRACTION = 0.005


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
        f"{_FRACTION}",
    )
    add(
        "--test-fraction",
        type=float,
        metavar="F",
        help=f"the same for test; 0 for no test split; default {_FRACTION}",
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
        f"{_VOCABULARY['vocab_size']}",
    )
    add(
        "--model-type",
        choices=["unigram", "bpe"],
        help=f"SentencePiece model type; default {_VOCABULARY['model_type']}",
    )
    add(
        "--character-coverage",
        type=float,
        metavar="F",
        help="fraction of the characters that the vocabulary covers, from 0.98 to 1; default "
        f"{_VOCABULARY['character_coverage']}",
    )
    add(
        "--sample-mb",
        type=int,
        metavar="N",
        help="MiB of train, sampled evenly, to learn the vocabulary from; a unigram "
        f"model needs about 30 times as much memory; default {_VOCABULARY['sample_mb']}",
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


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Prepare the data, or resume what an earlier run left unfinished.

    Raises:
        OSError, ValueError: if an input or an option is wrong, or the output folder is in use.
    """
    _fill_and_check(args)
    _check_contents(args)
    os.makedirs(args.output_dir, exist_ok=True)
    with locked(args.output_dir):
        before = recorded_settings(args.output_dir)
        now = settings(args, before)
        steps = Steps(args.output_dir, now, used_by([*now, *before]))
        if steps.result("report", bool) is not None:
            logger.info("%s is already finished", args.output_dir)
        else:
            _prepare(args, steps)
        shutil.rmtree(os.path.join(args.output_dir, "work"), ignore_errors=True)


def _prepare(args: argparse.Namespace, steps: Steps) -> None:
    # first of all, mark the folder as this run's
    if steps.result("start", bool) is None:
        steps.finish("start", True)
    report, folders = Pipeline(args, steps).run()
    steps.finish("report", True)
    for line in summary(report):
        logger.info("%s", line)
    is_learned = report["vocabulary"]["type"] == args.model_type
    for line in unknown_pieces(report["unknown_rate"], is_learned):
        logger.warning("warning: %s", line)
    if args.vocabulary:
        logger.info("next: the fairseq-train command that tupe-convert has printed")
        return
    logger.info("next, for a first small model (README: the paper's recipe):")
    show(first_training(folders, args.tokens_per_sample))


def _fill_and_check(args: argparse.Namespace) -> None:
    """Fill in the defaults that depend on other flags; refuse what is wrong or has no effect."""
    given = _given_vocabulary(args)
    for name, default in _VOCABULARY.items():
        if not given and getattr(args, name) is None:
            setattr(args, name, default)
    for split in ("valid", "test"):
        fraction = f"{split}_fraction"
        if getattr(args, f"{split}_input"):
            if getattr(args, fraction) is not None:
                raise ValueError(f"give --{split}-input or --{split}-fraction, not both")
            setattr(args, fraction, 0.0)
        elif getattr(args, fraction) is None:
            setattr(args, fraction, _FRACTION)
    if not args.valid_input:
        in_range("--valid-fraction", args.valid_fraction, above=0, below=1)
    in_range("--test-fraction", args.test_fraction, at_least=0, below=1)
    if args.valid_fraction + args.test_fraction >= 1:
        raise ValueError("--valid-fraction and --test-fraction leave nothing for train")
    in_range("--workers", args.workers, at_least=1)
    in_range("--shards", args.shards, at_least=1)
    in_range("--max-chars", args.max_chars, at_least=1, at_most=1_000_000)
    in_range("--min-chars", args.min_chars, at_least=1, at_most=args.max_chars)
    in_range("--join-short", args.join_short, at_least=0, at_most=args.max_chars)
    in_range("--tokens-per-sample", args.tokens_per_sample, at_least=3)
    if not given:
        in_range("--vocab-size", args.vocab_size, at_least=6)
        # SentencePiece's own limits
        in_range("--character-coverage", args.character_coverage, at_least=0.98, at_most=1)
        in_range("--sample-mb", args.sample_mb, at_least=1)
    _check_paths(args)


def _given_vocabulary(args: argparse.Namespace) -> bool:
    """Whether no vocabulary is to be learned; refuses flags that then have no effect."""
    if not (args.sentencepiece_model or args.vocabulary):
        return False
    flag = "--vocabulary" if args.vocabulary else "--sentencepiece-model"
    others = [*_VOCABULARY, *(["sentencepiece_model", "lowercase"] if args.vocabulary else [])]
    for name in others:
        if getattr(args, name) not in (None, False):
            other = name.replace("_", "-")
            raise ValueError(f"--{other} has no effect with {flag}; leave it out")
    if args.vocabulary:
        ForeignVocabulary(args.vocabulary)  # a broken one is refused before the text is cleaned
    return True


def _check_paths(args: argparse.Namespace) -> None:
    no_separators("--output-dir", args.output_dir, ":,")
    folder = os.path.join(os.path.realpath(args.output_dir), "")
    for path in input_files(args).values():
        if (os.path.realpath(path) + os.sep).startswith(folder):
            raise ValueError(
                f"{path} is inside --output-dir {args.output_dir}; give another folder"
            )
        if not os.path.isfile(path):
            if not os.path.exists(path):
                raise ValueError(f"{path} does not exist")
            if os.path.isdir(path):
                raise ValueError(f"{path} is not a file")
            raise ValueError(
                f"{path} is a pipe or a device; write what comes out of it to a file first, "
                "because it is read several times"
            )


def _check_contents(args: argparse.Namespace) -> None:
    """Find what is wrong with the inputs before the folder is made and hours are spent."""
    Cleaner(TextTreatment(args.lowercase), args.split_sentences)
    if args.sentencepiece_model:
        Pieces(args.sentencepiece_model)
    for path in text_files(args).values():
        if args.text_field is None:
            refuse_what_is_no_text(path)
        else:
            check_texts(path, args.text_field)


if __name__ == "__main__":
    main()
