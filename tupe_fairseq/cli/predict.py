"""tupe-predict: predictions of a fine-tuned model for rows of texts."""

import argparse
import contextlib
import functools
import logging
import os
import sys
from collections import Counter
from collections.abc import Container

from tupe_fairseq.cli.arg_types import output_file, writable
from tupe_fairseq.cli.shared_flags import Parser, add_model_flags, load_model
from tupe_fairseq.cli.text_rows import TextRows, add_row_flags, log_counts, parse_rows
from tupe_fairseq.data.rows import STANDARD_INPUT, ending_of
from tupe_fairseq.options import flag

logger = logging.getLogger("tupe-predict")
_CHUNK = 1024  # questions


def get_parser() -> Parser:
    parser = Parser(
        prog="tupe-predict",
        description="Write the rows of a file with a fine-tuned model's predictions: label and "
        "probability, score, labels and probabilities, tags, or an answer with its place in the "
        "text and a score. Labels and vocabulary are read from the folder of the "
        "checkpoint, or from --data.",
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
        help="for standard output; default: tsv, or jsonl for answers")  # fmt: skip
    add("--label-separator", metavar="SIGN",
        help="separator of several labels in .tsv and .csv; default: a comma")  # fmt: skip
    add("--all-probabilities", action="store_true",
        help="add a column with the probability of each label, as JSON")  # fmt: skip
    add("--calibrate", action="store_true",
        help="divide the logits by the temperature in temperature.json beside CHECKPOINT; if there "
        "is none, first fit it on the validation set of --data")  # fmt: skip
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

    from tupe_fairseq.data.rows import row_writer
    from tupe_fairseq.data.task import Task
    from tupe_fairseq.files import atomic_write
    from tupe_fairseq.inference.texts import (
        ALL,
        PREDICTED,
        encode_rows,
        logits_of_tokens,
        prediction,
    )

    model, tokenizer, folders = load_model(args, "encoder", "head")
    encoder, head = model.encoder, model.head
    task = Task.load(*folders)
    task.check_model(args.checkpoint, model.kind, head.out_proj.out_features)
    if args.label_separator is None:
        args.label_separator = ","
    elif task.kind != "multilabel":
        raise ValueError(f"--label-separator: the task {task.name} has no lists of labels; drop it")
    if task.kind == "qa":
        return _answer(args, task, tokenizer, encoder, head)
    ending = os.path.splitext(args.output_file or f"-.{args.format or 'tsv'}")[1].lower()
    writes, is_conll = args.output_file or not args.report, ending == ".conll"
    if args.all_probabilities and (task.is_regression or is_conll):
        why = ".conll has no column for them" if is_conll else f"{task.name} is a regression task"
        raise ValueError(f"--all-probabilities: {why}; drop it")
    if is_conll and task.kind != "tagging":
        raise ValueError(".conll is only for words and tags, not for named columns; write .jsonl")
    separator = args.label_separator if task.kind == "multilabel" and ending != ".jsonl" else None
    for label in task.labels if task.kind == "multilabel" and (separator or args.report) else ():
        if args.label_separator in label:
            sign = repr(args.label_separator)
            raise ValueError(f"--label-separator {sign} is in the label {label!r}; give another")
    read = None
    if args.report:
        from tupe_fairseq.data.task_rows import read_label
        from tupe_fairseq.evaluation.report import Evaluated, write_report
        from tupe_fairseq.finetune.scoring import with_metric

        task = with_metric(task, args.metric)
        read = functools.partial(read_label, task, args.label_separator)
    rows = TextRows(args, task, folders=folders, read_label=read)
    with open(os.devnull, "w") as nowhere:
        if writes:  # rows that the output's format cannot hold are refused before the work
            rows.fits = row_writer(ending, nowhere, list(rows.texts) if is_conll else None)
        total = None if rows.is_stream else rows.count()
        names = [*["row"] * (args.skip_bad_rows and not is_conll), *PREDICTED[task.kind]]
        names += [ALL] * args.all_probabilities
        new = _new_names(names, rows.texts if is_conll else rows.columns) if writes else {}
        temperature = None
        if args.calibrate:
            from tupe_fairseq.evaluation.calibration import read_or_fit

            model_parts = encoder, head, args.batch_tokens
            temperature = read_or_fit(args.checkpoint, args.data, task, *model_parts)
        counts: Counter[str] = Counter()
        evaluated = []

        def work(texts):
            encoded = encode_rows(texts, task, tokenizer)
            return logits_of_tokens(encoded, task, encoder, head, args.batch_tokens, counts)

        out = args.output_file
        with atomic_write(out) if out else contextlib.nullcontext(sys.stdout) as file:
            whole = not is_conll or ending_of(args.input, ".txt") == ".conll"
            columns = [*(rows.columns if whole else rows.texts), *new.values()]
            write = row_writer(ending, file, columns if writes else None)
            for chunk, of_chunk in rows.work(work, total):
                for (index, row), x in zip(chunk, of_chunk):
                    if args.report:
                        evaluated.append(Evaluated(index, [row[name] for name in rows.texts], x))
                    if not writes:
                        continue
                    found = prediction(task, x / (temperature or 1), args.all_probabilities)
                    if separator is not None:
                        lists = ((name, found[name]) for name in PREDICTED["multilabel"])
                        found |= {name: separator.join(map(str, one)) for name, one in lists}
                    found["row"] = index
                    write({**row, **{name: found[key] for key, name in new.items()}})
                file.flush()
    log_counts(logger, counts, rows.bad)
    if args.report:
        about = {
            "file": args.input, "label": rows.label, "checkpoint": args.checkpoint,
            "left_out": str(rows.bad) if rows.bad else "",
        }  # fmt: skip
        write_report(args.report, about, task, rows.labels, evaluated, temperature)
    if args.output_file:
        logger.info("wrote %s", args.output_file)


def _answer(args: argparse.Namespace, task, tokenizer, encoder, head) -> None:
    """Answer the questions of a file; if it has the right answers, log the metrics."""
    from tqdm import tqdm

    from tupe_fairseq.data.questions import read_questions
    from tupe_fairseq.data.rows import BadRows, row_writer
    from tupe_fairseq.files import atomic_write
    from tupe_fairseq.finetune.scoring import Predicted, with_intervals
    from tupe_fairseq.inference.texts import PREDICTED, answers

    flags = "text text2 label all_probabilities calibrate report metric".split()
    for name in (name for name in flags if getattr(args, name)):
        raise ValueError(f"{flag(name)} has no effect on questions; drop it")
    ending = os.path.splitext(args.output_file or f"-.{args.format or 'jsonl'}")[1].lower()
    if ending == ".conll":
        raise ValueError(".conll is only for words and tags; write .jsonl")
    if args.input == STANDARD_INPUT:
        raise ValueError("questions need a file: SQuAD's .json, .jsonl or .parquet")
    bad, counts, found = BadRows(args.skip_bad_rows), Counter(), []
    questions = list(read_questions(args.input, bad))
    if not questions:
        raise ValueError(f"{args.input} has no usable questions; left out: {bad}")
    out = args.output_file
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(atomic_write(out)) if out else sys.stdout
        bar = stack.enter_context(tqdm(total=len(questions), disable=None, leave=False))
        write = row_writer(ending, file, ["id", "question", *PREDICTED["qa"]])
        for start in range(0, len(questions), _CHUNK):
            chunk = questions[start : start + _CHUNK]
            pairs = [(one.question, one.context) for one in chunk]
            options = args.batch_tokens, counts
            for one, row in zip(chunk, answers(pairs, task, tokenizer, encoder, head, *options)):
                write({"id": one.id, "question": one.question, **row})
                found.append(row["answer"])
            bar.update(len(chunk))
    log_counts(logger, counts, bad)
    unknown = sum(one.answers is None for one in questions)
    if 0 < unknown < len(found):
        text = "%d of %d questions lack answers, so nothing is measured"
        logger.warning(text, unknown, len(found))
    elif not unknown:
        right = [tuple(text for text, _ in one.answers) for one in questions]
        for name, one in with_intervals(task, Predicted(found, right)).items():
            logger.info("%s %.4f, 95%% interval %.4f to %.4f", name, one["value"], *one["interval"])
    if out:
        logger.info("wrote %s", out)


def _new_names(names: list[str], columns: Container[str]) -> dict[str, str]:
    """The names of the new columns, with a prefix if INPUT has a column of such a name."""
    prefix = ""
    while any(prefix + name in columns for name in names):
        prefix += "predicted_"
    if prefix:
        logger.info("the new columns are %s", ", ".join(prefix + name for name in names))
    return {name: prefix + name for name in names}
