"""tupe-predict: predictions of a fine-tuned model for rows of texts."""

import contextlib
import functools
import logging
import os
import sys
from collections import Counter
from collections.abc import Container

from tupe_fairseq.cli.arg_types import output_file, writable
from tupe_fairseq.cli.extras import need
from tupe_fairseq.cli.shared_flags import Parser, add_model_flags, load_model
from tupe_fairseq.cli.text_rows import TextRows, add_row_flags, log_counts, parse_rows
from tupe_fairseq.data.rows import STANDARD_INPUT, ending_of

logger = logging.getLogger("tupe-predict")


def get_parser() -> Parser:
    parser = Parser(
        prog="tupe-predict",
        description="Write the rows of a file with a fine-tuned model's predictions: label and "
        "probability, score, labels and probabilities, or tags. Labels and vocabulary are read "
        "from the folder of the checkpoint, or from --data.",
        epilog="examples: tupe-predict runs/reviews/best new.csv --output-file labelled.csv; "
        "echo 'It is good.' | tupe-predict runs/reviews/best -",
    )
    add_model_flags(parser)
    add_row_flags(parser)
    add = parser.add_argument
    add("--output-file", type=output_file(".tsv", ".csv", ".jsonl", ".conll"), metavar="OUT",
        help="OUT.tsv, .csv, .jsonl or, for tags, .conll, written only when complete; "
        "default: standard output")  # fmt: skip
    add("--format", choices=("tsv", "csv", "jsonl", "conll"),
        help="for standard output; default: that of INPUT, or tsv")  # fmt: skip
    add("--all-probabilities", action="store_true",
        help="add a column with the probability of each label, as JSON")  # fmt: skip
    add = parser.add_argument_group("evaluation of labelled rows").add_argument
    add("--report", type=writable, metavar="DIR",
        help="a new folder for metrics, classes, calibration and errors; rows are then only "
        "written to --output-file")  # fmt: skip
    add("--label", metavar="COL", help="column of the label; default: as in training, or guessed")
    add("--metric", metavar="NAME", help="one more metric, such as mcc")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = get_parser()
    args = parse_rows(parser, argv)
    if args.output_file and args.format:
        parser.error("--format is for standard output; the ending of --output-file sets its format")
    if (args.label or args.metric) and not args.report:
        needing = "--label" if args.label else "--metric"
        parser.error(f"{needing} needs --report, the folder for the evaluation")
    if args.report and args.input == STANDARD_INPUT:
        parser.error("--report is for files, not for standard input")
    if args.report and os.path.isdir(args.report) and os.listdir(args.report):
        parser.error(f"--report {args.report} is not empty; give a new folder")

    if args.report:
        need("matplotlib", "scipy", "seqeval", "sklearn")

    from tupe_fairseq.data.rows import marks_of, row_writer
    from tupe_fairseq.files import atomic_write
    from tupe_fairseq.inference.texts import (
        encode_rows,
        logits_of_tokens,
    )
    from tupe_fairseq.kinds.base import ALL
    from tupe_fairseq.labelled.task import Task, recorded_columns

    model, tokenizer, folders = load_model(args, "encoder", "head")
    encoder, head = model.encoder, model.head
    task = Task.load(*folders)
    task.check_model(args.checkpoint, model.kind, head.out_proj.out_features)
    usual = ending_of(args.input, ".txt")
    usual = {".txt": ".tsv", ".parquet": ".jsonl"}.get(usual, usual)
    ending = os.path.splitext(args.output_file or f"-.{args.format or usual[1:]}")[1].lower()
    writes, is_conll = args.output_file or not args.report, ending == ".conll"
    if args.all_probabilities and (not task.labels or is_conll):
        why = ".conll has no column for them; write .jsonl (--output-file, --format)"
        why = why if is_conll else f"{task.name} is a {task.kind.name} task; drop it"
        raise ValueError(f"--all-probabilities: {why}")
    if is_conll and not task.kind.of_words:
        raise ValueError(".conll is only for words and tags, not for named columns; write .jsonl")
    separator = recorded_columns(*folders).get("label_separator", ",")
    joins = "label_separator" in task.kind.flags and writes and ending != ".jsonl"
    for label in task.labels if joins else ():
        if separator in label:
            raise ValueError(
                f"the label {label!r} has {separator!r}, which separates labels in {ending}; write "
                ".jsonl (--output-file, --format)"
            )
    read = None
    if args.report:
        from tupe_fairseq.evaluation.report import Evaluated, write_report
        from tupe_fairseq.finetune.scoring import with_more
        from tupe_fairseq.labelled.task_rows import read_label
        from tupe_fairseq.provenance import made_by

        task = with_more(task, args.metric)
        read = functools.partial(read_label, task, separator)
    rows = TextRows(args, task, folders=folders, read_label=read)
    with open(os.devnull, "w") as nowhere:
        if writes:  # rows that the output's format cannot hold are refused before the work
            rows.fits = row_writer(ending, nowhere, list(rows.texts) if is_conll else None)
        total = None if rows.is_stream else rows.count()
        names = [*["row"] * (args.skip_bad_rows and not is_conll), *task.kind.keys]
        names += [ALL] * args.all_probabilities
        new = _new_names(names, rows.texts if is_conll else rows.columns) if writes else {}
        counts: Counter[str] = Counter()
        evaluated = []

        def work(texts):
            encoded = encode_rows(texts, task, tokenizer)
            return logits_of_tokens(encoded, task, encoder, head, counts)

        out = args.output_file
        with atomic_write(out) if out else contextlib.nullcontext(sys.stdout) as file:
            whole = not is_conll or ending_of(args.input, ".txt") == ".conll"
            columns = [*(rows.columns if whole else rows.texts), *new.values()]
            write = row_writer(ending, file, columns if writes else None, marks_of(args.input))
            for chunk, of_chunk in rows.work(work, total):
                for (index, row), x in zip(chunk, of_chunk):
                    if args.report:
                        evaluated.append(Evaluated(index, [row[name] for name in rows.texts], x))
                    if not writes:
                        continue
                    found = task.kind.predict(x, task, args.all_probabilities)
                    if joins:
                        lists = ((name, found[name]) for name in task.kind.keys)
                        found |= {name: separator.join(map(str, one)) for name, one in lists}
                    found["row"] = index
                    write({**row, **{name: found[key] for key, name in new.items()}})
                file.flush()
    log_counts(logger, counts, rows.bad)
    if args.report:
        about = {
            "file": args.input, "label": rows.label, "checkpoint": args.checkpoint,
            "left_out": str(rows.bad) if rows.bad else "",
            **made_by(encoder.embed_tokens.weight.device),
        }  # fmt: skip
        write_report(args.report, about, task, rows.labels, evaluated)
    if args.output_file:
        logger.info("wrote %s", args.output_file)


def _new_names(names: list[str], columns: Container[str]) -> dict[str, str]:
    """The names of the new columns, with a prefix if INPUT has a column of such a name."""
    prefix = ""
    while any(prefix + name in columns for name in names):
        prefix += "predicted_"
    if prefix:
        logger.info("the new columns are %s", ", ".join(prefix + name for name in names))
    return {name: prefix + name for name in names}
