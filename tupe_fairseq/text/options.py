"""Checking the options of tupe-prepare-pretrain, and what of them the result depends on."""

import argparse
import os
from typing import Any, Dict

# Flags of which one makes the others useless: they default to None, so that giving one shows.
VOCABULARY = {
    "vocab_size": 32768,
    "model_type": "unigram",
    "character_coverage": 0.9995,
    "sample_mb": 64,
}
FRACTION = 0.005


def fill_and_check(args: argparse.Namespace) -> None:
    """Fill in the defaults that depend on other flags; refuse what is wrong or useless."""
    if args.sentencepiece_model:
        for name in VOCABULARY:
            if getattr(args, name) is not None:
                flag = name.replace("_", "-")
                raise ValueError(f"--{flag} has no effect with --sentencepiece-model; leave it out")
    else:
        for name, default in VOCABULARY.items():
            if getattr(args, name) is None:
                setattr(args, name, default)
    for split in ("valid", "test"):
        fraction = f"{split}_fraction"
        if getattr(args, f"{split}_input"):
            if getattr(args, fraction) is not None:
                raise ValueError(f"give --{split}-input or --{split}-fraction, not both")
            setattr(args, fraction, 0.0)
        elif getattr(args, fraction) is None:
            setattr(args, fraction, FRACTION)
    if not args.valid_input:
        _check_range(args, "valid_fraction", above=0, below=1)
    _check_range(args, "test_fraction", at_least=0, below=1)
    if args.valid_fraction + args.test_fraction >= 1:
        raise ValueError("--valid-fraction and --test-fraction leave nothing for train")
    _check_range(args, "workers", at_least=1)
    _check_range(args, "shards", at_least=1)
    _check_range(args, "max_chars", at_least=1, at_most=1_000_000)
    _check_range(args, "min_chars", at_least=1, at_most=args.max_chars)
    _check_range(args, "join_short", at_least=0, at_most=args.max_chars)
    _check_range(args, "tokens_per_sample", at_least=3)
    if not args.sentencepiece_model:
        _check_range(args, "vocab_size", at_least=6)
        _check_range(args, "character_coverage", above=0, at_most=1)
        _check_range(args, "sample_mb", at_least=1)
    _check_paths(args)


def _check_range(args, name, above=None, at_least=None, at_most=None, below=None) -> None:
    value = getattr(args, name)
    flag = "--" + name.replace("_", "-")
    if above is not None and not value > above:
        raise ValueError(f"{flag} is {value}; give more than {above}")
    if at_least is not None and not value >= at_least:
        raise ValueError(f"{flag} is {value}; give at least {at_least}")
    if at_most is not None and not value <= at_most:
        raise ValueError(f"{flag} is {value}; give at most {at_most}")
    if below is not None and not value < below:
        raise ValueError(f"{flag} is {value}; give less than {below}")


def _check_paths(args) -> None:
    for sign in ":,":
        if sign in args.output_dir:
            raise ValueError(
                f"--output-dir {args.output_dir} contains {sign!r}, at which fairseq splits lists"
            )
    folder = os.path.join(os.path.realpath(args.output_dir), "")
    for path in _files(args).values():
        if (os.path.realpath(path) + os.sep).startswith(folder):
            raise ValueError(f"{path} lies in --output-dir {args.output_dir}; give another folder")
        if not os.path.isfile(path):
            reason = "is not a file" if os.path.exists(path) else "does not exist"
            raise ValueError(f"{path} {reason}")


def _files(args) -> Dict[str, str]:
    """Every file that is read, by a name for it."""
    named = {}
    for kind in ("input", "valid_input", "test_input"):
        for number, path in enumerate(getattr(args, kind) or [], 1):
            named[f"{kind} {number}"] = path
    if args.sentencepiece_model:
        named["sentencepiece_model"] = args.sentencepiece_model
    return named


def settings(args: argparse.Namespace) -> Dict[str, Any]:
    """All that the result depends on; an input file by its name, size and time of change."""
    files = _files(args)
    kinds = {"input", "valid_input", "test_input", "sentencepiece_model"}
    without = {*kinds, "workers", "output_dir"}
    found = {name: value for name, value in vars(args).items() if name not in without}
    for name, path in files.items():
        status = os.stat(path)
        found[name] = [os.path.basename(path), status.st_size, status.st_mtime_ns]
    return found
