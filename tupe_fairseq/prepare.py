"""Data preparation in Python: what tupe-prepare-pretrain, -task and -glue do.

Options are checked before anything large is imported.
"""

import argparse
import functools
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tupe_fairseq.files import file_sha256
from tupe_fairseq.kinds import FORMER, FORMER_ADVICE, KINDS
from tupe_fairseq.labelled.glue import GLUE_TASKS, GlueTask, official_files, read_glue
from tupe_fairseq.options import flag

_Path = str | os.PathLike[str]
_VOCABULARY_SIZE = 32768
_FRACTION = 0.005
# options that do not affect the rows, and the files, which are compared by their content
_NO_SETTINGS = "output_dir overwrite pretrain_dir vocabulary workers train valid test".split()


def prepare_pretraining(
    input: _Path | Sequence[_Path],
    output_dir: _Path,
    *,
    text_field: str | None = None,
    lowercase: bool = False,
    keep_duplicates: bool | None = None,
    valid_input: _Path | Sequence[_Path] | None = None,
    valid_fraction: float | None = None,
    vocab_size: int | None = None,
    character_coverage: float | None = None,
    sentencepiece_model: _Path | None = None,
    vocabulary: _Path | None = None,
    tokens_per_sample: int = 512,
    workers: int | None = None,
    overwrite: bool = False,
) -> dict[str, Any] | None:
    """Write a folder for pre-training, as tupe-prepare-pretrain does, and return its report.

    Returns None if the folder is already finished.
    """
    options = _options(locals())
    _check_pretraining(options)
    options.workers = workers or os.cpu_count()
    from tupe_fairseq.data import pretraining

    return pretraining.prepare(options)


def _options(arguments: dict[str, Any]) -> argparse.Namespace:
    """The arguments as options, with paths as str."""
    paths = {name: str(x) for name, x in arguments.items() if isinstance(x, os.PathLike)}
    return argparse.Namespace(**arguments | paths)


def _listed(names: str | Iterable[_Path]) -> list[str]:
    """A list of str; a single str becomes one item, not its letters."""
    return [names] if isinstance(names, str) else [*map(str, names)]


def _check_pretraining(options: argparse.Namespace) -> None:
    """Refuse options that contradict each other, and fill in defaults that depend on others."""
    for name in ("input", "valid_input"):
        setattr(options, name, getattr(options, name) and _listed(getattr(options, name)))
    if not options.input:
        raise ValueError("--input has no file")
    given = "vocabulary" if options.vocabulary else "sentencepiece_model"
    others = ("sentencepiece_model", "lowercase") if options.vocabulary else ()
    for name in ("vocab_size", "character_coverage", *others) if getattr(options, given) else ():
        if getattr(options, name):
            raise ValueError(f"{flag(name)} has no effect with {flag(given)}; leave it out")
    options.vocab_size = options.vocab_size or _VOCABULARY_SIZE
    if options.valid_input and options.valid_fraction is not None:
        raise ValueError("give --valid-input or --valid-fraction, not both")
    if options.valid_fraction is None:
        options.valid_fraction = 0.0 if options.valid_input else _FRACTION
    if not options.valid_input and not 0 < options.valid_fraction < 1:
        raise ValueError(
            f"--valid-fraction ({options.valid_fraction}) must be above 0, because fairseq needs a "
            "valid split, and below 1"
        )
    if set(",:") & set(options.output_dir):
        raise ValueError(
            f"--output-dir {options.output_dir} has a : or , at which fairseq splits lists"
        )


def prepare_task(
    train: _Path,
    output_dir: _Path,
    *,
    kind: str,
    pretrain_dir: _Path,
    valid: _Path | None = None,
    test: _Path | None = None,
    text: str | None = None,
    text2: str | None = None,
    label: str | None = None,
    labels: Sequence[str] | None = None,
    label_separator: str | None = None,
    group: str | None = None,
    valid_share: float | None = None,
    test_share: float | None = None,
    folds: int | None = None,
    seed: int | None = None,
    skip_bad_rows: bool = False,
    vocabulary: tuple[str, Sequence[str]] | None = None,
    workers: int | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write the folder of your own task, as tupe-prepare-task does; returns its report.json.

    ``vocabulary``: as in ``export_model``, if ``pretrain_dir`` has none.
    """
    options = _options(locals())
    _check_task(options)
    from tupe_fairseq.data.tokenizer import given_tokenizer
    from tupe_fairseq.labelled.task_folder import prepare_folder
    from tupe_fairseq.labelled.task_rows import read_task

    settings = {name: x for name, x in vars(options).items() if name not in _NO_SETTINGS}
    settings["kind"] = options.kind.name
    settings["files"] = {split: file_sha256(path) for split, path in options.files.items()}
    tokenizer = given_tokenizer(options.pretrain_dir, "--pretrain-dir", vocabulary)
    read = functools.partial(read_task, options, tokenizer.normalize)
    folder, names = options.output_dir, options.files
    return prepare_folder(folder, settings, read, tokenizer, workers, overwrite, names)


def _check_task(options: argparse.Namespace) -> None:
    """Refuse options that contradict each other, and fill in defaults that depend on others."""
    if options.kind not in KINDS:
        advice = f"; {FORMER_ADVICE}" * (options.kind in FORMER)
        raise ValueError(f"--kind {options.kind!r} is none of {', '.join(KINDS)}{advice}")
    options.kind = KINDS[options.kind]
    for dest in dict.fromkeys(dest for kind in KINDS.values() for dest in kind.flags):
        if getattr(options, dest) is not None and dest not in options.kind.flags:
            raise ValueError(f"{flag(dest)} has no effect on --kind {options.kind.name}; drop it")
    for dest in ("valid", "test", "test_share") if options.folds else ():
        if getattr(options, dest) is not None:
            raise ValueError(f"--folds draws valid and test from --train; drop it, or {flag(dest)}")
    for dest, split in (("test_share", "test"), ("valid_share", "valid"), ("seed", "valid")):
        of_valid = dest != "seed" or not options.test_share
        if None not in (getattr(options, dest), getattr(options, split)) and of_valid:
            raise ValueError(f"{flag(dest)} has no effect with --{split}; drop one")
    options.valid_share = 0.1 if options.valid_share is None else options.valid_share
    for dest in ("valid_share", "test_share"):
        share = getattr(options, dest)
        if share is not None and not 0 < share < 1:
            raise ValueError(f"{flag(dest)} {share} is not above 0 and below 1")
    if options.folds is not None and options.folds < 2:
        raise ValueError(f"--folds {options.folds} is below 2")
    options.seed = 1 if options.seed is None else options.seed
    if options.text2 is not None and options.text is None:
        raise ValueError("--text2 needs --text, the column of the first text")
    options.label_separator = "," if options.label_separator is None else options.label_separator
    if not options.label_separator:
        raise ValueError("--label-separator is empty")
    options.labels = () if options.labels is None else tuple(_listed(options.labels) or [""])
    for label in options.labels:
        if not label or options.labels.count(label) > 1:
            raise ValueError(f"--labels has {label!r} twice, or an empty label")
    options.name = os.path.basename(os.path.abspath(options.output_dir))
    if not re.fullmatch(r"\w[\w.+-]*", options.name):
        raise ValueError(
            f"--output-dir {options.output_dir} cannot name a folder of runs; use letters, digits, "
            "'_' and, after the first character, '.', '+' or '-'"
        )
    paths = {split: getattr(options, split) for split in ("train", "valid", "test")}
    options.files = {split: path for split, path in paths.items() if path}


def prepare_glue(
    glue_dir: _Path,
    output_dir: _Path,
    *,
    pretrain_dir: _Path,
    tasks: Sequence[str] = tuple(GLUE_TASKS),
    vocabulary: tuple[str, Sequence[str]] | None = None,
    workers: int | None = None,
    overwrite: bool = False,
) -> dict[str, dict[str, Any]]:
    """Write the folders of GLUE tasks, as tupe-prepare-glue does; returns each report.json.

    ``vocabulary``: as in ``export_model``, if ``pretrain_dir`` has none.
    """
    tasks = _listed(tasks)
    for name in tasks:
        if name not in GLUE_TASKS:
            raise ValueError(f"--tasks: {name!r} is not a task; give {', '.join(GLUE_TASKS)}")
    official = [(GLUE_TASKS[name], official_files(GLUE_TASKS[name], glue_dir)) for name in tasks]
    from tupe_fairseq.data.tokenizer import given_tokenizer
    from tupe_fairseq.labelled.task_folder import prepare_folder

    tokenizer = given_tokenizer(os.fspath(pretrain_dir), "--pretrain-dir", vocabulary)
    reports = {}
    for task, files in official:
        folder = os.path.join(output_dir, task.name)
        settings = {os.path.basename(path): file_sha256(path) for path in files.values()}
        read = functools.partial(_read_glue, task, files)
        reports[folder] = prepare_folder(folder, settings, read, tokenizer, workers, overwrite)
    return reports


def _read_glue(task: GlueTask, files: dict[str, str]) -> tuple[Any, ...]:
    splits = {split: read_glue(task, split, path) for split, path in files.items()}
    missing = [name for split, name in task.files.items() if split not in files]
    warnings = [f"{name} is missing, so there is no submission for it" for name in missing]
    train = splits["train"].labels
    warnings += [f"{label} does not occur in train" for label in task.labels if label not in train]
    return task.task, {"": splits}, {"warnings": warnings}
