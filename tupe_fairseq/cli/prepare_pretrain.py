"""tupe-prepare-pretrain: turn raw text into a data folder for fairseq's masked_lm."""

import logging
import os

from tupe_fairseq.cli import arg_types
from tupe_fairseq.cli.extras import need
from tupe_fairseq.cli.shared_flags import Parser
from tupe_fairseq.prepare import prepare_pretraining

logger = logging.getLogger("tupe-prepare-pretrain")


def get_parser() -> Parser:
    parser = Parser(
        prog="tupe-prepare-pretrain",
        description="Clean raw text, drop duplicate lines, split it into train and valid, "
        "learn a SentencePiece vocabulary, encode, and binarize for fairseq's masked_lm task. "
        "If interrupted, run the same command again to resume.",
        epilog="example: tupe-prepare-pretrain --input wiki/*.xz books.txt --output-dir data "
        "--vocab-size 32768",
    )
    add = parser.add_argument
    text = "UTF-8 text (plain, .gz, .xz or .bz2), or with --text-field rows; a document ends at a "
    text += "blank line, at WikiExtractor's <doc> lines, or at the end of the file"
    files = {"nargs": "+", "action": "extend", "type": arg_types.file, "metavar": "FILE"}
    add("--input", required=True, help=text, **files)
    add("--text-field", metavar="NAME", help="read the text from this field of JSON lines or this "
        "column of .csv, .tsv or .parquet; each row is a document; rows without it are counted"
    )  # fmt: skip
    text = "output folder, the data argument of fairseq-train"
    add("--output-dir", required=True, type=arg_types.writable, metavar="DIR", help=text)
    text = "make the folder again, such as from changed files"
    add("--overwrite", action="store_true", help=text)
    text = "threads or processes; does not change the result; default: one per core"
    add("--workers", type=arg_types.count, metavar="N", help=text)
    add = parser.add_argument_group("cleaning").add_argument
    add("--lowercase", action="store_true", help="make all text lower case")
    add("--keep-duplicates", action="store_true", default=None, help="keep repeated lines, as in "
        "dialogue, verse or code; valid may then have lines of train")  # fmt: skip
    add = parser.add_argument_group("splits").add_argument
    text = "text of the valid split; its lines are dropped from train; default: documents of "
    add("--valid-input", help=text + "--input", **files)
    text = "fraction of --input's documents to use as valid, chosen by a hash; default "
    add("--valid-fraction", type=arg_types.fraction, metavar="F", help=text + "0.005")
    add = parser.add_argument_group("vocabulary").add_argument
    add("--vocab-size", type=arg_types.at_least(6), metavar="N", help="number of dictionary "
        "entries, including <s>, <pad>, </s>, <unk> and <mask>; default 32768")  # fmt: skip
    coverage = arg_types.number(lambda x: 0.98 <= x <= 1, "a number from 0.98 to 1")
    add("--character-coverage", type=coverage, metavar="F", help="fraction of the characters that "
        "the vocabulary covers, from 0.98 to 1; default: 1 for alphabets, 0.9995 if there are more "
        "characters than a tenth of --vocab-size; both with printable ASCII")  # fmt: skip
    text = "use this SentencePiece model instead of learning one"
    add("--sentencepiece-model", type=arg_types.file, metavar="FILE", help=text)
    text = "use the vocabulary of this folder, made by tupe-convert or this command, and clean "
    text += "lines as for it (for a converted model, not at all)"
    add("--vocabulary", type=arg_types.folder_with("dict.txt"), metavar="DIR", help=text)
    text = "the --tokens-per-sample of the training; lines of more than N - 2 tokens are split, "
    text += "because fairseq would skip them; default %(default)s"
    add("--tokens-per-sample", type=arg_types.at_least(3), default=512, metavar="N", help=text)
    return parser


def main(argv: list[str] | None = None) -> None:
    args = get_parser().parse_args(argv)
    need("numpy", "tqdm", *([] if args.vocabulary else ["sentencepiece"]))
    report = prepare_pretraining(**vars(args))
    from tupe_fairseq.cli.printed_commands import first_training
    from tupe_fairseq.data.pretraining import summary

    if report is None:
        logger.info("%s is already finished", args.output_dir)
    for line in summary(report) if report else ():
        logger.info("%s", line)
    if args.vocabulary and os.path.isfile(os.path.join(args.vocabulary, "model.pt")):
        logger.info("next: run the fairseq-train command that tupe-convert printed")
        return
    logger.info("next, for a first small model (README: the paper's recipe):")
    print(first_training(args.output_dir, args.tokens_per_sample), flush=True)
