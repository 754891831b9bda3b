"""tupe-predict: what a fine-tuned model predicts for rows of texts."""

import argparse
import io
import logging
from collections.abc import Callable
from typing import Any

from tupe_fairseq.command_flags.predict import check, get_parser
from tupe_fairseq.command_flags.vocabulary_flags import CHOICES, given_vocabulary
from tupe_fairseq.commands.chunk_run import (
    count_rows,
    opened_output,
    run_chunks,
    settings_of,
    tell,
)
from tupe_fairseq.commands.devices import devices_of
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.commands.text_input import BadRows, TextInput, open_input
from tupe_fairseq.inference.fine_tuned import FineTuned, load_fine_tuned
from tupe_fairseq.labelled.described_task import described_task
from tupe_fairseq.labelled.task_description import MULTILABEL, TAGGING, Task
from tupe_fairseq.labelled.trained_kind import check_kind
from tupe_fairseq.prediction.predictor import Predict, predictor
from tupe_fairseq.prediction.row_chunks import Chunk
from tupe_fairseq.prediction.row_predictions import answers
from tupe_fairseq.rows.row_writer import added_columns, row_writer
from tupe_fairseq.text.found_vocabulary import find_dictionary
from tupe_fairseq.text.to_tokens import ToTokens, open_vocabulary, places_of

logger = logging.getLogger("tupe-predict")


def main(argv: list[str] | None = None) -> None:
    run_program(get_parser(), run, argv, check=check, resumes=True)


def run(args: argparse.Namespace) -> None:
    """Predict; the file appears under its name only when everything is predicted.

    Raises:
        OSError, ValueError: if an input is absent or wrong.
    """
    given = given_vocabulary(args)
    devices = devices_of(args)
    places = places_of(args.checkpoint, args.data)
    dictionary = find_dictionary(places)
    model = load_fine_tuned(args.checkpoint, dictionary)
    task = described_task(places)
    check_kind(args.checkpoint, model.kind, model.outputs, task)
    to_tokens = open_vocabulary(model.symbols, places, dictionary, given, True, CHOICES)
    source = open_input(args, task.texts, task.kind == TAGGING, logger)
    lines = _Lines(args, source, task)
    total = None
    if not source.is_stream:
        total = count_rows(source, logger, lines.check)
    files = [args.checkpoint, dictionary, *to_tokens.paths, args.input]
    bad = BadRows()

    def settings():
        more = {"task": task.to_record(), "columns": lines.columns, "separator": lines.separator}
        return {**settings_of(args, devices, files), **more}

    with opened_output(args.output_file, source, settings) as output:
        work = _work(args, model, task, to_tokens)
        counts = run_chunks(source, work, devices, lines.of, output, total, bad)
    if source.is_stream:
        bad.tell(logger)
    tell(counts, logger, args.output_file)


def _work(
    args: argparse.Namespace, model: FineTuned, task: Task, to_tokens: ToTokens
) -> Callable[[str], Predict]:
    """A device -> what predicts there."""

    def make(device: str) -> Predict:
        encoder, head = model.encoder.to(device), model.head.to(device)
        if args.fp16:
            encoder, head = encoder.half(), head.half()
        return predictor(task, to_tokens, encoder, head, args.batch_tokens, args.unpad)

    return make


class _Lines:
    """The lines of rows with their predictions.

    Args:
        args (Namespace): the flags.
        source (TextInput): the rows.
        task (Task): what is predicted.
    Raises:
        ValueError: if a column is there twice, or a label has the sign that is between labels.
    """

    def __init__(self, args: argparse.Namespace, source: TextInput, task: Task):
        names = answers(task).names
        self._path = args.output_file or "standard output.tsv"
        try:
            self.columns = added_columns(source.columns, [args.prefix + name for name in names])
        except ValueError as error:
            raise ValueError(f"{error}, or give --prefix predicted_") from error
        self._added = len(names)
        # without a row of names before, there is none after
        self._header = source.file.has_names or source.file.tags is not None
        is_flat = not self._path.lower().endswith(".jsonl")
        self.separator = args.label_separator if task.kind == MULTILABEL and is_flat else None
        for label in task.labels:
            if self.separator is not None and self.separator in label:
                raise ValueError(
                    f"--label-separator {self.separator!r} is in the label {label!r}; give another"
                )

    def check(self, chunk: Chunk) -> None:
        """Refuse what the kind of file cannot hold.

        Raises:
            ValueError: as :meth:`RowWriter.write`.
        """
        self._written(chunk, [["-"] * self._added] * len(chunk.values), False)

    def of(self, chunk: Chunk, found: list[list[Any]], is_first: bool) -> bytes:
        """The lines of a chunk, and the names of the columns before the first."""
        return self._written(chunk, found, is_first and self._header)

    def _written(self, chunk: Chunk, found: list[list[Any]], header: bool) -> bytes:
        lines = io.StringIO(newline="")
        writer = row_writer(self._path, self.columns, lines, header)
        for values, more in zip(chunk.values, found):
            if self.separator is not None:
                more = [self.separator.join(map(str, value)) for value in more]
            writer.write([*values, *more])
        return lines.getvalue().encode()


if __name__ == "__main__":
    main()
