"""tupe-score: pseudo-log-likelihoods of sentences, and minimal pairs."""

import logging

from tupe_fairseq.cli.arg_types import count, file, output_file, writable
from tupe_fairseq.cli.shared_flags import Parser, add_model_flags, refuse_overwriting
from tupe_fairseq.options import flag

logger = logging.getLogger("tupe-score")


def get_parser() -> Parser:
    parser = Parser(
        prog="tupe-score",
        description="Score sentences by pseudo-log-likelihood: each token is masked in turn, and "
        "the logarithms of its probabilities are summed. --pairs gives the accuracy on minimal "
        "pairs.",
        epilog="examples: tupe-score checkpoints/checkpoint_best.pt --data data-bin --input "
        "valid.txt --output-file scores.tsv; tupe-score checkpoints/checkpoint_best.pt --data "
        "data-bin --pairs blimp/data --results blimp-results",
    )
    add_model_flags(parser, half=False)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--input", type=file, metavar="FILE",
        help="text, a sentence in each line, also .gz, .xz, .bz2; a blank line has the score 0; "
        "default: standard input",
    )  # fmt: skip
    what.add_argument(
        "--pairs", nargs="+", action="extend", metavar="PATH",
        help=".jsonl files of minimal pairs (also .gz, .xz, .bz2), or folders, such as BLiMP's, "
        "with sentence_good, sentence_bad and optionally linguistics_term",
    )  # fmt: skip
    add = parser.add_argument
    add("--output-file", type=output_file(".tsv", ".jsonl"), metavar="OUT",
        help="OUT.tsv or OUT.jsonl for the score of each row; default: standard output as .tsv, "
        "or with --pairs nothing")  # fmt: skip
    add("--results", type=writable, metavar="DIR",
        help="folder for results.md and results.json of --pairs")  # fmt: skip
    add("--pairs-per-file", type=count, metavar="N", help="score the first N pairs of each file")
    add(
        "--cut", action="store_true",
        help="truncate and count sentences that are longer than the model; default: an error",
    )  # fmt: skip
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = get_parser()
    args = parser.parse_args(argv)
    for name in ("results", "pairs_per_file"):
        if getattr(args, name) and args.pairs is None:
            parser.error(f"{flag(name)} needs --pairs")
    inputs = [args.checkpoint, args.input, *(args.pairs or [])]
    refuse_overwriting(parser, args.output_file, inputs)
    from tupe_fairseq.scoring.minimal_pairs import accuracy_table
    from tupe_fairseq.scoring.score import score_file

    names = "input pairs data output_file results pairs_per_file cut"
    options = {name: getattr(args, name) for name in names.split()}
    device = "cpu" if args.cpu else None
    results = score_file(args.checkpoint, device=device, **options)
    if args.pairs:
        print(accuracy_table(results["pairs"]), end="")
    for name in ("output_file", "results"):
        if path := getattr(args, name):
            what = "" if name == "output_file" else "results.md and results.json in "
            logger.info("wrote %s%s", what, path)
