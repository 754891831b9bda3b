"""What tupe-compare is to read out of each model, checked before anything is imported."""

import argparse
import os
import shlex
from collections.abc import Sequence
from typing import NoReturn

from tupe_fairseq.cli import finetune
from tupe_fairseq.command_flags.arguments import in_range
from tupe_fairseq.command_flags.given_paths import no_separators
from tupe_fairseq.compare.claims import Claim, parse_claims
from tupe_fairseq.compare.readouts import Readouts
from tupe_fairseq.files.names import CLS, DICTIONARY, POOLING_NAMES, REPORT
from tupe_fairseq.scoring.minimal_pairs import pair_files


def given_readouts(args: argparse.Namespace) -> Readouts:
    """Read --pairs, --pairs-per-file, --tasks, --poolings and --finetune-flags.

    Raises:
        OSError, ValueError: the message names the flag.
    """
    if args.pairs is None:
        if args.pairs_per_file is not None:
            raise ValueError("--pairs-per-file is for --pairs, which is not given")
    else:
        pair_files([args.pairs])
    if args.pairs_per_file is not None:
        in_range("--pairs-per-file", args.pairs_per_file, at_least=1)
    if args.tasks is None:
        for flag in ("poolings", "finetune_flags"):
            if vars(args)[flag] is not None:
                raise ValueError(f"--{flag.replace('_', '-')} is for --tasks, which is not given")
    return Readouts(
        pairs="" if args.pairs is None else os.path.abspath(args.pairs),
        pairs_per_file=args.pairs_per_file or 0,
        tasks=() if args.tasks is None else _tasks(args),
        poolings=_poolings(args.poolings or CLS),
        finetune_flags=_finetune_flags(args.finetune_flags or ""),
    )


def given_claims(
    args: argparse.Namespace, schemes: Sequence[str], readouts: Readouts
) -> list[Claim]:
    """Read --claims.

    Args:
        args (Namespace): the flags.
        schemes (sequence of str): labels of the schemes that are compared.
        readouts (Readouts): what is read out of each model.
    Raises:
        ValueError: the message names the claim.
    """
    return [] if args.claims is None else parse_claims(args.claims, schemes, readouts.names())


def _tasks(args: argparse.Namespace) -> tuple[str, ...]:
    """The folders, absolute, each of which has the words of DATA."""
    folders = [os.path.abspath(part.strip()) for part in args.tasks.split(",")]
    words = _bytes(os.path.join(args.data.split(":")[0], DICTIONARY))
    names = [os.path.basename(folder) for folder in folders]
    for folder, name in zip(folders, names):
        if not os.path.isfile(os.path.join(folder, REPORT)):
            raise FileNotFoundError(f"--tasks {folder} has no {REPORT}")
        no_separators("--tasks", folder)
        if names.count(name) > 1:
            raise ValueError(f"--tasks has two folders of the name {name}; rename one")
        if _bytes(os.path.join(folder, "input0", DICTIONARY)) != words:
            raise ValueError(
                f"--tasks {folder} was prepared with another vocabulary than {args.data}; "
                "prepare it with --pretrain-data of that folder"
            )
    return tuple(folders)


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _poolings(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(","))
    for part in found:
        if part not in POOLING_NAMES:
            raise ValueError(f"--poolings {text}: {part!r} is none of {', '.join(POOLING_NAMES)}")
        if found.count(part) > 1:
            raise ValueError(f"--poolings {text}: {part} is listed twice")
    return found


def _finetune_flags(text: str) -> tuple[str, ...]:
    """Split --finetune-flags into words, all of which tupe-finetune takes."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"--finetune-flags {text}: {error}") from error
    parser = argparse.ArgumentParser(prog="tupe-finetune", add_help=False)
    finetune.add_protocol_flags(parser)

    def refuse(message: str) -> NoReturn:
        raise ValueError(f"--finetune-flags {text}: {message}")

    parser.error = refuse  # type: ignore[method-assign]
    parser.parse_args(words)
    return tuple(words)
