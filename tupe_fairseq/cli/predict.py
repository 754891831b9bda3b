"""tupe-predict: predictions of a fine-tuned model for rows of texts."""

import contextlib
import functools
import logging
import os
import sys
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass

from tupe_fairseq.cli.extras import need
from tupe_fairseq.cli.text_rows import RowOptions, TextRows, log_counts
from tupe_fairseq.data.row_formats import STANDARD_INPUT, ending_of
from tupe_fairseq.flags import one_of, option, output_file, writable

logger = logging.getLogger("tupe-predict")


@dataclass(kw_only=True)
class Options(RowOptions):
    """Write the rows of a file with a fine-tuned model's predictions: label and probability, score,
    labels and probabilities, or tags. Labels and vocabulary are read from the folder of the
    checkpoint, or from --data.

    examples: tupe-predict runs/reviews/best new.csv --output-file labelled.csv; echo 'It is good.'
    | tupe-predict runs/reviews/best -
    """

    output_file: str | None = option(
        "OUT.tsv, .csv, .jsonl or, for tags, .conll, written only when complete",
        output_file(".tsv", ".csv", ".jsonl", ".conll"), None, unset="standard output",
    )  # fmt: skip
    format: str | None = option(
        "for standard output",
        one_of("tsv", "csv", "jsonl", "conll"), None, unset="that of INPUT, or tsv",
        not_with=("output_file",),
    )  # fmt: skip
    all_probabilities: bool = option(
        "add a column with the probability of each label, as JSON", bool, False
    )
    report: str | None = option(
        "a new folder for metrics, classes, calibration and errors; rows are then only written to "
        "--output-file",
        writable, None, group="evaluation of labelled rows",
    )  # fmt: skip
    label: str | None = option(
        "column of the label",
        default=None, unset="as in training, or guessed", group="evaluation of labelled rows",
        metavar="COLUMN", needs="report",
    )  # fmt: skip
    metric: str | None = option(
        "one more metric, such as mcc",
        default=None, group="evaluation of labelled rows", metavar="NAME", needs="report",
    )  # fmt: skip

    def check(self) -> None:
        super().check()
        if self.report and self.input == STANDARD_INPUT:
            raise ValueError("--report is for files, not for standard input")
        if self.report and os.path.isdir(self.report) and os.listdir(self.report):
            raise ValueError(f"--report {self.report} is not empty; give a new folder")
        if self.report and not self.output_file and (self.format or self.all_probabilities):
            name = "--format" if self.format else "--all-probabilities"
            raise ValueError(f"{name} has no effect with --report without --output-file; drop it")


def main(options: Options) -> None:
    if options.report:
        need("matplotlib", "scipy", "seqeval", "sklearn")

    from tupe_fairseq.data.rows import marks_of, row_writer
    from tupe_fairseq.files import atomic_write
    from tupe_fairseq.inference.texts import logits_of_tokens
    from tupe_fairseq.kinds.base import ALL
    from tupe_fairseq.labelled.task import Task, recorded_columns

    model, tokenizer, folders = options.load_model("encoder", "head")
    encoder, head = model.encoder, model.head
    task = Task.load(*folders)
    task.check_model(options.checkpoint, model.kind, head.out_proj.out_features)
    usual = ending_of(options.input, ".txt")
    usual = {".txt": ".tsv", ".parquet": ".jsonl"}.get(usual, usual)
    ending = os.path.splitext(options.output_file or f"-.{options.format or usual[1:]}")[1].lower()
    writes, is_conll = options.output_file or not options.report, ending == ".conll"
    if options.all_probabilities and (not task.labels or is_conll):
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
    if options.report:
        from tupe_fairseq.labelled.task_rows import read_label
        from tupe_fairseq.provenance import made_by
        from tupe_fairseq.results.evaluation import Evaluated, write_evaluation
        from tupe_fairseq.results.scores import with_more

        task = with_more(task, options.metric)
        read = functools.partial(read_label, task, separator)
    rows = TextRows(options, task, folders=folders, read_label=read)
    with open(os.devnull, "w") as nowhere:
        if writes:  # rows that the output's format cannot hold are refused before the work
            rows.fits = row_writer(ending, nowhere, list(rows.texts) if is_conll else None)
        rows.count()
        names = [*["row"] * (options.skip_bad_rows and not is_conll), *task.kind.keys]
        names += [ALL] * options.all_probabilities
        new = _new_names(names, rows.texts if is_conll else rows.columns) if writes else {}
        counts: Counter[str] = Counter()
        evaluated = []

        def work(texts):
            encoded = tokenizer.encode_rows(texts, task.kind.of_words)
            return logits_of_tokens(encoded, task, encoder, head, counts)

        out = options.output_file
        with atomic_write(out) if out else contextlib.nullcontext(sys.stdout) as file:
            whole = not is_conll or ending_of(options.input, ".txt") == ".conll"
            columns = [*(rows.columns if whole else rows.texts), *new.values()]
            write = row_writer(ending, file, columns if writes else None, marks_of(options.input))
            for chunk, of_chunk in rows.work(work):
                for row, x in zip(chunk, of_chunk):
                    if options.report:
                        texts = [row.cells[name] for name in rows.texts]
                        evaluated.append(Evaluated(row.index, texts, row.label, x))
                    if not writes:
                        continue
                    found = task.kind.predict(x, task, options.all_probabilities)
                    if joins:
                        lists = ((name, found[name]) for name in task.kind.keys)
                        found |= {name: separator.join(map(str, one)) for name, one in lists}
                    found["row"] = row.index
                    write({**row.cells, **{name: found[key] for key, name in new.items()}})
                file.flush()
    log_counts(logger, counts, rows.bad)
    if options.report:
        about = {
            "file": options.input, "label": rows.label, "checkpoint": options.checkpoint,
            "left_out": str(rows.bad) if rows.bad else "",
            **made_by(encoder.embed_tokens.weight.device),
        }  # fmt: skip
        write_evaluation(options.report, about, task, evaluated)
    if options.output_file:
        logger.info("wrote %s", options.output_file)


def _new_names(names: list[str], columns: Container[str]) -> dict[str, str]:
    """The names of the new columns, with a prefix if INPUT has a column of such a name."""
    prefix = ""
    while any(prefix + name in columns for name in names):
        prefix += "predicted_"
    if prefix:
        logger.info("the new columns are %s", ", ".join(prefix + name for name in names))
    return {name: prefix + name for name in names}
