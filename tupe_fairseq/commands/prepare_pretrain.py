"""tupe-prepare-pretrain: turn raw text into a data folder for fairseq's masked_lm."""

import argparse
import logging
import os
import shutil

from tupe_fairseq.command_flags.prepare_pretrain import check, get_parser
from tupe_fairseq.commands.first_training import first_training
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.fairseq_runs.command import show
from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.steps import Steps, recorded_settings
from tupe_fairseq.text.cleaning import Cleaner
from tupe_fairseq.text.data_report import summary
from tupe_fairseq.text.foreign_vocabulary import ForeignVocabulary
from tupe_fairseq.text.losses import unknown_pieces
from tupe_fairseq.text.not_text import refuse_what_is_no_text
from tupe_fairseq.text.pieces import Pieces
from tupe_fairseq.text.pipeline import Pipeline
from tupe_fairseq.text.row_texts import check_texts
from tupe_fairseq.text.settings import settings, text_files, used_by
from tupe_fairseq.text.treatment import TextTreatment

logger = logging.getLogger("tupe-prepare-pretrain")


def main(argv: list[str] | None = None) -> None:
    run_program(get_parser(), run, argv, check=check, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Prepare the data, or resume what an earlier run left unfinished.

    Raises:
        OSError, ValueError: if an input or an option is wrong, or the output folder is in use.
    """
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


def _check_contents(args: argparse.Namespace) -> None:
    """Find what is wrong with the inputs before the folder is made and hours are spent."""
    Cleaner(TextTreatment(args.lowercase), args.split_sentences)
    if args.vocabulary:
        ForeignVocabulary(args.vocabulary)
    if args.sentencepiece_model:
        Pieces(args.sentencepiece_model)
    for path in text_files(args).values():
        if args.text_field is None:
            refuse_what_is_no_text(path)
        else:
            check_texts(path, args.text_field)


if __name__ == "__main__":
    main()
