"""Data preparation: what tupe-prepare-pretrain, -task and -glue do, and their options."""

import csv
import functools
import os
import re
from dataclasses import KW_ONLY, dataclass
from typing import Any

from tupe_fairseq.files import file_sha256
from tupe_fairseq.flags import (
    Options,
    UserDir,
    VocabularyFiles,
    at_least,
    comma_list,
    count,
    file,
    folder,
    folder_with,
    no_colon,
    number,
    one_of,
    option,
    rows_file,
    share,
    shown_as,
    takes,
    writable,
)
from tupe_fairseq.kinds import KINDS, get_kind
from tupe_fairseq.labelled.glue import GLUE_TASKS, GlueTask, official_files, read_glue
from tupe_fairseq.options import flag


@dataclass(kw_only=True)
class _Preparation(Options):
    overwrite: bool = option("make a finished folder again", bool, False, recorded=False)
    workers: int = option(
        "threads or processes",
        count, os.cpu_count() or 1, unset="all cores", recorded=False,
    )  # fmt: skip


_GIVEN = ("vocabulary", "sentencepiece_model")


@dataclass
class PretrainingOptions(_Preparation):
    """Clean raw text, drop duplicate lines, split it into train and valid, learn a SentencePiece
    vocabulary, encode, and binarize for fairseq's masked_lm task. If interrupted, run the same
    command again to resume.

    example: tupe-prepare-pretrain --input wiki/*.xz books.txt --output-dir data --vocab-size 32768
    """

    input: list[str] = option(
        "UTF-8 text (plain, .gz, .xz, .bz2), or rows of --text-field; documents end at blank "
        "lines, WikiExtractor's <doc> lines, or with the file",
        file, many=True,
    )  # fmt: skip
    output_dir: str = option(
        "output folder, the data argument of fairseq-train", writable, recorded=False
    )
    _: KW_ONLY
    text_field: str | None = option(
        "the text is in this field of JSON lines, or this column of .csv, .tsv or .parquet; each "
        "row is a document",
        default=None, metavar="NAME",
    )  # fmt: skip
    tokens_per_sample: int = option(
        "of the training; lines of more than N - 2 tokens, which fairseq would skip, are split",
        at_least(3), 512,
    )  # fmt: skip
    lowercase: bool = option(
        "make all text lower case", bool, False, group="cleaning", not_with=("vocabulary",)
    )
    keep_duplicates: bool | None = option(
        "keep repeated lines; valid may then have some of train",
        bool, None, group="cleaning",
    )  # fmt: skip
    valid_input: list[str] | None = option(
        "text of valid; train loses its lines",
        file, None, unset="documents of --input", many=True, group="splits",
    )  # fmt: skip
    valid_share: float | None = option(
        "of the documents for valid, by a hash",
        share, None, unset="0.005", group="splits", not_with=("valid_input",),
    )  # fmt: skip
    vocab_size: int | None = option(
        "entries of the dictionary, special tokens included",
        at_least(6), None, unset="32768", group="vocabulary", not_with=_GIVEN,
    )  # fmt: skip
    character_coverage: float | None = option(
        "covered characters, from 0.98 to 1",
        number(lambda x: 0.98 <= x <= 1, "a number from 0.98 to 1", "F"), None,
        unset="1 for alphabets, 0.9995 if there are more characters than a tenth of --vocab-size; "
        "both with printable ASCII",
        group="vocabulary", not_with=_GIVEN,
    )  # fmt: skip
    sentencepiece_model: str | None = option(
        "use this one instead of learning one",
        file, None, group="vocabulary", not_with=("vocabulary",), recorded=False,
    )  # fmt: skip
    vocabulary: str | None = option(
        "use that of a folder of tupe-convert or this command, and clean lines as for it (for a "
        "converted model, not at all)",
        folder_with("dict.txt"), None, group="vocabulary", recorded=False,
    )  # fmt: skip

    def check(self) -> None:
        if set(",:") & set(self.output_dir):
            raise ValueError(
                f"--output-dir {self.output_dir} has a : or , at which fairseq splits lists"
            )
        self.vocab_size = self.vocab_size or 32768
        self.valid_share = 0.0 if self.valid_input else self.valid_share or 0.005


@takes(PretrainingOptions)
def prepare_pretraining(options: PretrainingOptions) -> dict[str, Any] | None:
    """Write a folder for pre-training, as tupe-prepare-pretrain does, and return its report.

    Returns None if the folder is already finished.
    """
    from tupe_fairseq.data import pretraining

    return pretraining.prepare(options)


@dataclass(kw_only=True)
class _Encoding(VocabularyFiles, _Preparation):
    vocabulary: str = option(
        "folder of tupe-prepare-pretrain, tupe-convert or tupe-export, or of fairseq-preprocess "
        "with the files below or in it",
        folder_with("dict.txt"), recorded=False,
    )  # fmt: skip

    def tokenizer(self) -> Any:
        from tupe_fairseq.data.tokenizer import given_tokenizer

        return given_tokenizer(self.vocabulary, self.vocabulary_files())


@shown_as("LIST")
def _labels(value: Any) -> tuple[str, ...]:
    """Labels; text is a row of CSV."""
    cells = next(csv.reader([value])) if isinstance(value, str) else value
    labels = tuple(str(label).strip() for label in cells) or ("",)
    for label in labels:
        if not label or labels.count(label) > 1:
            raise ValueError(f"it has {label!r} twice, or an empty label")
    return labels


_KINDS = ", ".join(f"{kind.name} ({kind.help})" for kind in KINDS.values())


@dataclass
class TaskOptions(_Encoding, UserDir):
    """Turn your labelled texts into a folder for tupe-finetune, with the vocabulary of the
    pre-training. Files are .tsv, .csv, .jsonl, .parquet, or .conll for tagging (all but .parquet
    also .gz, .xz or .bz2).

    example: tupe-prepare-task --kind classification --train reviews.csv --folds 5 --vocabulary
    data-bin --output-dir tasks/reviews
    """

    train: str = option("rows to train with", rows_file, recorded=False)
    output_dir: str = option("the data folder to write", no_colon(writable), recorded=False)
    _: KW_ONLY
    kind: Any = option(
        f"what is predicted for a row: {_KINDS}, or one that --user-dir registers",
        get_kind, metavar="KIND",
    )  # fmt: skip
    text: str | None = option(
        "column of the text, or of the words to tag, a list or separated by spaces (.conll has "
        "columns 1, 2, ...)",
        default=None, unset="guessed, and printed", metavar="COLUMN",
    )  # fmt: skip
    text2: str | None = option(
        "for pairs: column of the second text", default=None, metavar="COLUMN", needs="text"
    )
    label: str | None = option(
        "column of the label", default=None, unset="guessed, and printed", metavar="COLUMN"
    )
    skip_bad_rows: bool = option(
        "count and leave out rows that cannot be used; otherwise the first is an error",
        bool, False,
    )  # fmt: skip
    valid: str | None = option(
        "rows to validate with",
        rows_file, None, unset="a share of train", group="splits", not_with=("folds",),
        recorded=False,
    )  # fmt: skip
    test: str | None = option(
        "rows to predict; labels may be absent",
        rows_file, None, group="splits", not_with=("folds",), recorded=False,
    )  # fmt: skip
    valid_share: float | None = option(
        "of train, and of each class, without --valid",
        share, None, unset="0.1", group="splits", not_with=("valid",),
    )  # fmt: skip
    test_share: float | None = option(
        "of train, held out first; scored once, at the end",
        share, None, group="splits", not_with=("folds", "test"),
    )  # fmt: skip
    folds: int | None = option(
        "draw K test parts: each row of train is tested once, by a model that has not seen it; "
        "--valid-share is of the other rows",
        at_least(2), None, group="splits", metavar="K",
    )  # fmt: skip
    seed: int | None = option("of all random splits", at_least(0), None, unset="1", group="splits")
    group: str | None = option(
        "column of a person, a document, ...: its rows stay in one part, or are counted if given "
        "files split them",
        default=None, group="splits", metavar="COLUMN",
    )  # fmt: skip
    labels: tuple[str, ...] = option(
        "all labels or tags in the order of the classes, as a row of CSV",
        _labels, None, unset="those of train in alphabetical or numerical order",
        group="labels",
    )  # fmt: skip
    label_separator: str | None = option(
        "multilabel: between labels that are not a list",
        default=None, unset="','", group="labels", metavar="SIGN",
    )  # fmt: skip

    def check(self) -> None:
        for name in dict.fromkeys(name for kind in KINDS.values() for name in kind.flags):
            if getattr(self, name) is not None and name not in self.kind.flags:
                raise ValueError(f"{flag(name)} has no effect on --kind {self.kind.name}; drop it")
        if self.seed is not None and self.valid and not self.test_share:
            raise ValueError("--seed has no effect with --valid; drop one")
        if self.label_separator == "":
            raise ValueError("--label-separator is empty")
        self.valid_share, self.labels = self.valid_share or 0.1, self.labels or ()
        self.seed = 1 if self.seed is None else self.seed
        self.label_separator = self.label_separator or ","
        paths = {split: getattr(self, split) for split in ("train", "valid", "test")}
        self.files = {split: path for split, path in paths.items() if path}
        self.name = os.path.basename(os.path.abspath(self.output_dir))
        if not re.fullmatch(r"\w[\w.+-]*", self.name):
            raise ValueError(
                f"--output-dir {self.output_dir} cannot name a folder of runs; use letters, "
                "digits, '_' and, after the first character, '.', '+' or '-'"
            )


@takes(TaskOptions)
def prepare_task(options: TaskOptions) -> dict[str, Any]:
    """Write the folder of your own task, as tupe-prepare-task does; returns its report.json."""
    from tupe_fairseq.labelled.task_folder import prepare_folder
    from tupe_fairseq.labelled.task_rows import read_task

    hashes = {split: file_sha256(path) for split, path in options.files.items()}
    own = {"kind": options.kind.name, "name": options.name, "files": hashes}
    tokenizer = options.tokenizer()
    return prepare_folder(
        options.output_dir, options.settings() | own,
        functools.partial(read_task, options, tokenizer.normalize),
        tokenizer, options.workers, options.overwrite, options.files,
    )  # fmt: skip


@shown_as("NAMES")
def _tasks(value: Any) -> list[str]:
    """Names of GLUE's tasks, or ALL."""
    return list(GLUE_TASKS) if value == "ALL" else comma_list(one_of(*GLUE_TASKS))(value)


@dataclass
class GlueOptions(_Encoding):
    """Turn GLUE's official files into OUT/TASK folders for tupe-finetune, with the vocabulary of
    the pre-training. Tasks that are finished are skipped.

    example: tupe-prepare-glue --glue-dir glue_data --vocabulary data-bin --tasks CoLA,SST-2
    --output-dir glue-bin
    """

    glue_dir: str = option(
        "folder with a folder for each task (CoLA, SST-2, ...), as officially distributed", folder
    )
    output_dir: str = option("folder for the OUT/TASK folders", no_colon(writable), metavar="OUT")
    _: KW_ONLY
    tasks: list[str] = option(f"some of {','.join(GLUE_TASKS)}", _tasks, "ALL")


@takes(GlueOptions)
def prepare_glue(options: GlueOptions) -> dict[str, dict[str, Any]]:
    """Write the folders of GLUE tasks, as tupe-prepare-glue does; returns each report.json."""
    official = [GLUE_TASKS[name] for name in options.tasks]
    of_task = [(task, official_files(task, options.glue_dir)) for task in official]
    from tupe_fairseq.labelled.task_folder import prepare_folder

    tokenizer, reports = options.tokenizer(), {}
    for task, files in of_task:
        folder = os.path.join(options.output_dir, task.name)
        settings = {os.path.basename(path): file_sha256(path) for path in files.values()}
        read = functools.partial(_read_glue, task, files)
        reports[folder] = prepare_folder(
            folder, settings, read, tokenizer, options.workers, options.overwrite
        )
    return reports


def _read_glue(task: GlueTask, files: dict[str, str]) -> tuple[Any, ...]:
    splits = {split: read_glue(task, split, path) for split, path in files.items()}
    missing = [name for split, name in task.files.items() if split not in files]
    warnings = [f"{name} is missing, so there is no submission for it" for name in missing]
    train = splits["train"].labels
    warnings += [f"{label} does not occur in train" for label in task.labels if label not in train]
    return task, {"": splits}, {"warnings": warnings}
