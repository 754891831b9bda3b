"""tupe-prepare-pretrain: turn raw text into a data folder for fairseq's masked_lm."""

import argparse
import logging
import os
import shutil
from typing import List, Optional

from tupe_fairseq.command_flags.prepare_pretrain import FRACTION, VOCABULARY_DEFAULTS, get_parser
from tupe_fairseq.commands.arguments import in_range, no_separators
from tupe_fairseq.commands.first_training import first_training
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.steps import Steps, recorded_settings
from tupe_fairseq.shell_text import show
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
    for name, default in VOCABULARY_DEFAULTS.items():
        if not given and getattr(args, name) is None:
            setattr(args, name, default)
    for split in ("valid", "test"):
        fraction = f"{split}_fraction"
        if getattr(args, f"{split}_input"):
            if getattr(args, fraction) is not None:
                raise ValueError(f"give --{split}-input or --{split}-fraction, not both")
            setattr(args, fraction, 0.0)
        elif getattr(args, fraction) is None:
            setattr(args, fraction, FRACTION)
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
    others = [
        *VOCABULARY_DEFAULTS,
        *(["sentencepiece_model", "lowercase"] if args.vocabulary else []),
    ]
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
