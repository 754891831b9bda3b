"""tupe-predict: what a fine-tuned model predicts for rows of texts."""

import argparse
import contextlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Container

from tupe_fairseq.cli.arg_types import output_file
from tupe_fairseq.cli.shared_flags import add_model_flags, load_model
from tupe_fairseq.cli.text_rows import TextRows, add_row_flags, parse_rows

logger = logging.getLogger("tupe-predict")


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-predict",
        description="Write the rows of a file with what a fine-tuned model predicts: label and "
        "probability, score, labels and probabilities, or tags. Labels and vocabulary are read "
        "from the folder of the checkpoint, or from --data.",
        epilog="examples: tupe-predict runs/reviews/checkpoint_best.pt new.csv --output-file "
        "labelled.csv; echo 'It is good.' | tupe-predict checkpoint_best.pt -",
    )
    add_model_flags(parser)
    add_row_flags(parser, "; or - for standard input, a text in each line (pairs: two with a tab)")
    add = parser.add_argument
    add("--output-file", type=output_file(".tsv", ".csv", ".jsonl"), metavar="OUT",
        help="OUT.tsv, OUT.csv or OUT.jsonl, which is replaced when all is there; default: "
        "standard output")  # fmt: skip
    add("--format", choices=("tsv", "csv", "jsonl"),
        help="of standard output; default: tsv")  # fmt: skip
    add("--prefix", metavar="WORD",
        help="put before the names of the new columns; default: predicted_ if INPUT has columns of "
        "these names, else nothing")  # fmt: skip
    add("--label-separator", default=",", metavar="SIGN",
        help="between several labels in .tsv and .csv; default: a comma")  # fmt: skip
    return parser


def main(argv: list[str] | None = None) -> None:
    """Predict; the file gets its name when it is complete."""
    parser = get_parser()
    args, vocabulary = parse_rows(parser, argv)
    if args.output_file and args.format:
        parser.error("--format is of standard output; --output-file has an ending")

    from tupe_fairseq.checkpoint.find import folders_of
    from tupe_fairseq.data.rows import row_writer
    from tupe_fairseq.data.task import MULTILABEL, TAGGING, Task
    from tupe_fairseq.files import atomic_write
    from tupe_fairseq.inference.texts import PREDICTED, predict

    model, tokenizer, device = load_model(args, vocabulary)
    encoder, head = model.encoder, model.head
    folders = folders_of(args.checkpoint, args.data)
    task = Task.load(*folders)
    task.check_model(args.checkpoint, model.kind, head.out_proj.out_features)
    for module in (encoder, head):
        (module.half() if args.fp16 else module).to(device)
    ending = os.path.splitext(args.output_file or f"-.{args.format or 'tsv'}")[1].lower()
    separator = None
    if task.kind == MULTILABEL and ending != ".jsonl":
        separator = args.label_separator
        for label in task.labels:
            if separator in label:
                raise ValueError(
                    f"--label-separator {separator!r} is in the label {label!r}; give another"
                )
    rows = TextRows(args, task.texts, task.kind == TAGGING, usual=_columns_of(folders))
    with open(os.devnull, "w") as nowhere:
        # a row that this kind of file cannot hold is found before the work
        rows.fits = row_writer(ending, nowhere, None)
        total = None if rows.is_stream else rows.count()
        added = ["row"] * rows.skips + list(PREDICTED[task.kind])
        new = _new_names(args, added, rows.columns)
        counts: Counter[str] = Counter()

        def work(texts):
            return predict(texts, task, tokenizer, encoder, head, args.batch_tokens, counts)

        out = args.output_file
        with atomic_write(out) if out else contextlib.nullcontext(sys.stdout) as file:
            write = row_writer(ending, file, [*rows.columns, *new.values()], rows.header)
            for chunk, predictions in rows.work(work, total):
                for (index, row), prediction in zip(chunk, predictions):
                    values = {"row": index, **prediction}
                    if separator is not None:
                        lists = prediction.items()
                        values |= {name: separator.join(map(str, one)) for name, one in lists}
                    write({**row, **{name: values[key] for key, name in new.items()}})
                file.flush()
    rows.log(logger, counts)
    if args.output_file:
        logger.info("wrote %s", args.output_file)


def _new_names(
    args: argparse.Namespace, names: list[str], columns: Container[str]
) -> dict[str, str]:
    """The names of the new columns; none is one of INPUT's."""
    prefix = args.prefix or ""
    if args.prefix is None and any(name in columns for name in names):
        prefix = "predicted_"
        logger.info("the new columns are %s", ", ".join(prefix + name for name in names))
    for name in names:
        if prefix + name in columns:
            raise ValueError(f"{args.input} has a column {prefix + name!r}; give another --prefix")
    return {name: prefix + name for name in names}


def _columns_of(folders: list[str]) -> tuple[str | None, str | None]:
    """The columns that the texts of the training data were in, if a report.json says so."""
    from tupe_fairseq.files import read_json

    for folder in folders:
        path = os.path.join(folder, "report.json")
        columns = read_json(path).get("columns") if os.path.isfile(path) else None
        if columns:
            return columns["text"], columns.get("text2")
    return None, None
