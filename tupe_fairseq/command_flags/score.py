"""tupe-score's flags."""

import argparse

from tupe_fairseq.command_flags.arguments import in_range, numbers
from tupe_fairseq.command_flags.given_paths import (
    can_be_output,
    can_be_written,
    check_is_checkpoint,
    check_is_file,
)
from tupe_fairseq.command_flags.vocabulary_flags import add_vocabulary_flags, given_vocabulary
from tupe_fairseq.scoring.pair_files import PairFiles
from tupe_fairseq.scoring.pair_rows import PHENOMENON
from tupe_fairseq.scoring.score_lines import FORMATS
from tupe_fairseq.text.found_vocabulary import find_dictionary
from tupe_fairseq.text.to_tokens import places_of


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-score",
        description="Score sentences with a masked language model: every piece is masked in turn, "
        "and the natural logarithms of its probabilities are summed (pseudo-log-likelihood, "
        "Salazar et al. 2020). With --pairs, the share of minimal pairs whose acceptable sentence "
        "has the higher score (the sum, whatever the lengths; a tie counts as wrong), by file and "
        "phenomenon, with standard errors. Loss (the mean of a piece) and pseudo-perplexity of all "
        "text are told, too. With --lengths, instead, the loss of masked pieces (15 %, the same at "
        "each length) of the text in samples of several lengths, and by position in the sample. "
        "The model is a tupe_roberta with any position encoding, fairseq's "
        "stock RoBERTa or the TUPE authors'; the checkpoint is read without running any code that "
        "it contains. <s> and </s> stand around each sentence and are not scored; a piece that the "
        "vocabulary does not list is scored as <unk>.",
        epilog="examples: tupe-score checkpoints/checkpoint_best.pt --data data-bin --input "
        "valid.txt --output scores.tsv; tupe-score checkpoints/checkpoint_best.pt --data data-bin "
        "--pairs blimp/data --results blimp-results; tupe-score longer/model.pt --input valid.txt "
        "--lengths 128,512,2048 --results by-length",
    )
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="pre-trained")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--input",
        metavar="FILE",
        help="text, one sentence in each line, plain or .gz, .xz, .bz2; default: standard input",
    )
    what.add_argument(
        "--pairs",
        nargs="+",
        metavar="PATH",
        help="minimal pairs: files of JSON lines (.jsonl, also .gz, .xz, .bz2), folders with some, "
        "such as BLiMP's, or .tar archives of some, which are not unpacked",
    )
    add(
        "--output",
        metavar="OUT",
        help="the scores in order of the input, as OUT.tsv or OUT.jsonl; a file of this name is "
        "replaced when all are there; default: with --pairs none, else standard output, as .tsv",
    )
    add(
        "--results",
        metavar="DIR",
        help="folder for results.md and results.json: loss, pseudo-perplexity, shares; with "
        "--lengths a figure, too",
    )
    add(
        "--data",
        metavar="DIR",
        help="folder with dict.txt, the vocabulary and report.json (how text was treated); what it "
        "has not is taken from the checkpoint's folder; default: the latter",
    )
    add(
        "--lengths",
        metavar="L,L",
        help="tokens of a sample, <s> included: the lines of --input, each with </s>, are cut into "
        "samples of each of these lengths, whatever lines they hold; empty lines are left out",
    )
    add("--good", metavar="NAME", help="column of the acceptable sentence; default sentence_good")
    add("--bad", metavar="NAME", help="column of the other sentence; default sentence_bad")
    add(
        "--phenomenon",
        metavar="NAME",
        help=f"column of the phenomenon; default {PHENOMENON}, where rows have it",
    )
    add(
        "--pairs-per-file",
        type=int,
        metavar="N",
        help="score the first N pairs of each file only",
    )
    add(
        "--cut",
        action="store_true",
        help="score the first pieces of sentences that are longer than the model takes, and count "
        "them; default: such a sentence is an error",
    )
    add("--threads", type=int, metavar="N", help="CPU threads; default: torch's choice")
    add("--cpu", action="store_true", help="stay on the CPU even if there is a GPU")
    add_vocabulary_flags(parser)
    return parser


def check(args: argparse.Namespace) -> None:
    """Refuse what is wrong whatever is in the files.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    if args.pairs is None:
        for flag in ("good", "bad", "phenomenon", "pairs_per_file"):
            if getattr(args, flag) is not None:
                raise ValueError(f"--{flag.replace('_', '-')} is for --pairs, which is not given")
        if args.input is not None:
            check_is_file("--input", args.input)
    else:
        PairFiles(args.pairs)
        if args.pairs_per_file is not None:
            in_range("--pairs-per-file", args.pairs_per_file, at_least=1)
    if args.threads is not None:
        in_range("--threads", args.threads, at_least=1, at_most=1024)
    if args.lengths is not None:
        for flag in ("pairs", "output", "cut"):
            if getattr(args, flag):
                raise ValueError(f"--{flag} has no effect with --lengths, which scores whole text")
        sample_lengths(args.lengths)
    given_vocabulary(args)
    check_is_checkpoint(args.checkpoint)
    find_dictionary(places_of(args.checkpoint, args.data))
    if args.output is not None:
        if not args.output.endswith(FORMATS):
            raise ValueError(f"--output {args.output} must end in {' or '.join(FORMATS)}")
        inputs = [args.checkpoint, args.input, *(args.pairs or [])]
        can_be_output("--output", args.output, inputs)
    if args.results is not None:
        can_be_written("--results", args.results)


def sample_lengths(text: str) -> list[int]:
    """Read --lengths: whole numbers separated by commas, each once; in order."""
    kind = "whole number from 3 on"
    return sorted(numbers("--lengths", text, int, lambda length: length > 2, kind))
