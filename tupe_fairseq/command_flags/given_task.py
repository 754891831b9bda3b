"""What tupe-prepare-task's flags say of the task, and their checks."""

import argparse
import csv
import os
import re

from tupe_fairseq.command_flags import arguments
from tupe_fairseq.command_flags.given_paths import no_separators
from tupe_fairseq.command_flags.own_task_flags import SEED, SEPARATOR, VALID_SHARE
from tupe_fairseq.labelled.own_task import OwnTask
from tupe_fairseq.labelled.task_description import KINDS, MULTILABEL, REGRESSION, TAGGING

# the flags of some kinds only
_OF_KIND = {"label_separator": (MULTILABEL,), "tags": (TAGGING,), "scale": (REGRESSION,)}
_OF_KIND["labels"] = tuple(kind for kind in KINDS if kind != REGRESSION)
_OF_KIND["text2"] = tuple(kind for kind in KINDS if kind != TAGGING)
# names a folder, and is a word of fairseq's commands
_NAME = re.compile(r"\w[\w.+-]*")


def own_task(args: argparse.Namespace) -> OwnTask:
    """What the flags say of the task.

    Raises:
        OSError: if a file is missing.
        ValueError: if a flag has a wrong value, or no effect.
    """
    for name, kinds in _OF_KIND.items():
        if getattr(args, name) is not None and args.kind not in kinds:
            flag = f"--{name.replace('_', '-')}"
            raise ValueError(f"{flag} has no effect on --kind {args.kind}; drop it")
    no_separators("--output-dir", args.output_dir, ":,")
    name = args.name
    if name is None:
        name = os.path.basename(os.path.abspath(args.output_dir))
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"--name {name!r} cannot be the name of a folder of runs; give letters, digits, '.', "
            "'+', '-' or '_', not beginning with a sign"
        )
    for flag in ("valid_share", "seed"):
        if args.valid is not None and getattr(args, flag) is not None:
            raise ValueError(f"--{flag.replace('_', '-')} has no effect with --valid; drop one")
    if args.text2 is not None and args.text is None:
        raise ValueError("--text2 needs --text, the column of the first text")
    share = VALID_SHARE if args.valid_share is None else args.valid_share
    arguments.in_range("--valid-share", share, above=0, below=1)
    seed = SEED if args.seed is None else args.seed
    arguments.in_range("--seed", seed, at_least=0)
    paths = {"train": args.train, "valid": args.valid, "test": args.test}
    paths = {split: path for split, path in paths.items() if path is not None}
    for split, path in paths.items():
        if not os.path.isfile(path):
            raise FileNotFoundError(f"--{split} {path} is not a file")
    if args.label_separator == "":
        raise ValueError("--label-separator is empty; give a sign, such as ';'")
    return OwnTask(
        name=name,
        kind=args.kind,
        files=paths,
        text=args.text,
        second_text=args.text2,
        label=args.label,
        header=not args.no_header,
        labels=() if args.labels is None else _labels(args.labels),
        separator=SEPARATOR if args.label_separator is None else args.label_separator,
        tags=args.tags,
        scale=None if args.scale is None else _scale(args.scale),
        valid_share=share,
        seed=seed,
        skip_bad_rows=args.skip_bad_rows,
    )


def _labels(text: str) -> tuple[str, ...]:
    labels = [label.strip() for label in next(csv.reader([text]), [])] or [""]
    for place, label in enumerate(labels):
        if not label or label in labels[:place]:
            reason = "is there twice" if label else "is empty"
            raise ValueError(f"--labels {text}: the label {label!r} {reason}")
    return tuple(labels)


def _scale(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(","))
        arguments.in_range("--scale", high - low, above=0)
    except ValueError as error:
        raise ValueError(
            f"--scale {text} is not two numbers, the lower one first, such as 0,5"
        ) from error
    return low, high
