"""tupe-prepare-pretrain: raw text becomes a data folder for fairseq's masked_lm."""

import argparse
import logging
import os
import shutil
from typing import List, Optional

from tupe_fairseq.commands.program import run_program
from tupe_fairseq.files.atomic import write_json
from tupe_fairseq.files.lock import locked
from tupe_fairseq.files.steps import Steps
from tupe_fairseq.text.corpus import Corpus
from tupe_fairseq.text.dataset import Dataset
from tupe_fairseq.text.options import FRACTION, VOCABULARY, fill_and_check, settings
from tupe_fairseq.text.report import build_report, summary
from tupe_fairseq.text.workspace import Workspace

logger = logging.getLogger("tupe-prepare-pretrain")


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-prepare-pretrain",
        description="Clean raw text, drop duplicate lines, split it into train, valid and test, "
        "learn a SentencePiece vocabulary, encode, and binarize for fairseq's masked_lm task. "
        "Interrupted, the same command goes on where it stopped.",
        epilog="example: tupe-prepare-pretrain --input wiki/*.xz books.txt --output-dir data "
        "--vocab-size 32768",
    )
    add = parser.add_argument
    add(
        "--input",
        nargs="+",
        required=True,
        metavar="FILE",
        help="UTF-8 text, plain, .gz, .xz or .bz2; a document ends at a blank line or file end",
    )
    add(
        "--output-dir", required=True, metavar="DIR", help="folder to write; becomes fairseq's data"
    )
    add(
        "--workers",
        type=int,
        default=os.cpu_count(),
        metavar="N",
        help="processes; the result does not depend on it; default: one for each core",
    )
    add = parser.add_argument_group("cleaning").add_argument
    add("--lowercase", action="store_true", help="make all text lower case")
    add(
        "--split-sentences",
        nargs="?",
        const="en",
        metavar="LANG",
        help="put each sentence on its own line, by the rules of a language (two letters, en if "
        "left out); default: lines stay",
    )
    add(
        "--min-chars",
        type=int,
        default=1,
        metavar="N",
        help="drop shorter lines; default %(default)s",
    )
    add(
        "--max-chars",
        type=int,
        default=100_000,
        metavar="N",
        help="drop longer lines, at most 1000000; default %(default)s",
    )
    add(
        "--join-short",
        type=int,
        default=0,
        metavar="N",
        help="join a line of fewer characters with the next one of its document; default: never",
    )
    add = parser.add_argument_group("splits").add_argument
    add(
        "--valid-input",
        nargs="+",
        metavar="FILE",
        help="text for valid; its lines are dropped from train. Default: documents of --input",
    )
    add("--test-input", nargs="+", metavar="FILE", help="the same for test")
    add(
        "--valid-fraction",
        type=float,
        metavar="F",
        help=f"share of --input's documents for valid, chosen by a hash; default {FRACTION}",
    )
    add(
        "--test-fraction",
        type=float,
        metavar="F",
        help=f"the same for test; 0 makes no test; default {FRACTION}",
    )
    add(
        "--shards",
        type=int,
        default=1,
        metavar="N",
        help="deal train over DIR/shard0, DIR/shard1, ...; an epoch of fairseq-train loads one; "
        "default %(default)s, no shards",
    )
    add = parser.add_argument_group("vocabulary").add_argument
    add(
        "--vocab-size",
        type=int,
        metavar="N",
        help="entries of the dictionary, <s>, <pad>, </s>, <unk> and <mask> included; default "
        f"{VOCABULARY['vocab_size']}",
    )
    add(
        "--model-type",
        choices=["unigram", "bpe"],
        help=f"of SentencePiece; default {VOCABULARY['model_type']}",
    )
    add(
        "--character-coverage",
        type=float,
        metavar="F",
        help=f"share of the characters that get pieces; default {VOCABULARY['character_coverage']}",
    )
    add(
        "--sample-mb",
        type=int,
        metavar="N",
        help="MiB of train to learn the vocabulary from, lines spread evenly over it; a unigram "
        f"model takes some 30 times as much memory; default {VOCABULARY['sample_mb']}",
    )
    add("--sentencepiece-model", metavar="FILE", help="take this model and learn none")
    add(
        "--tokens-per-sample",
        type=int,
        default=512,
        metavar="N",
        help="as of fairseq-train: a line of more than N - 2 pieces is cut into several, because "
        "fairseq would skip it; default %(default)s",
    )
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv)


def run(args: argparse.Namespace) -> None:
    """Prepare the data, or go on with what an earlier run finished.

    Raises:
        OSError, ValueError: if an input or an option is wrong, or the output folder is in use.
    """
    fill_and_check(args)
    os.makedirs(args.output_dir, exist_ok=True)
    with locked(args.output_dir):
        steps = Steps(args.output_dir, settings(args))
        if steps.result("report") is not None:
            logger.info("%s is finished already", args.output_dir)
        else:
            _prepare(args, steps)
        shutil.rmtree(os.path.join(args.output_dir, "work"), ignore_errors=True)


def _prepare(args, steps) -> None:
    # from the first moment on, the folder is known to be of this run
    if steps.result("start") is None:
        steps.finish("start", True)
    space = Workspace(args, steps)
    corpus, dataset = Corpus(space), Dataset(space)
    cleaned = {**corpus.clean(), **corpus.deduplicate()}
    split = corpus.split()
    vocabulary = dataset.vocabulary()
    encoded = dataset.encode(list(split))
    folders = dataset.binarize(encoded)
    report = build_report(args, cleaned, split, encoded, vocabulary, space.dictionary)
    write_json(os.path.join(args.output_dir, "report.json"), report)
    steps.finish("report", True)
    for line in summary(report):
        logger.info("%s", line)
    logger.info(
        "next: fairseq-train %s --task masked_lm --tokens-per-sample %d ...",
        ":".join(folders), args.tokens_per_sample,
    )  # fmt: skip


if __name__ == "__main__":
    main()
