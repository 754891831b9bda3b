"""What can be checked of tupe-prepare-pretrain's flags before anything is imported."""

import argparse
import os

from tupe_fairseq.command_flags.arguments import in_range
from tupe_fairseq.command_flags.given_paths import can_be_written, no_separators
from tupe_fairseq.command_flags.pretrain_defaults import FRACTION, VOCABULARY_DEFAULTS
from tupe_fairseq.text.settings import input_files


def check(args: argparse.Namespace) -> None:
    """Fill in the defaults that depend on other flags; refuse what is wrong or has no effect.

    Raises:
        OSError, ValueError: the message names the flag or the file.
    """
    given = _given_vocabulary(args)
    for name, default in VOCABULARY_DEFAULTS.items():
        if not given and getattr(args, name) is None:
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
        in_range("--valid-fraction", args.valid_fraction, above=0, below=1)
    in_range("--test-fraction", args.test_fraction, at_least=0, below=1)
    if args.valid_fraction + args.test_fraction >= 1:
        raise ValueError("--valid-fraction and --test-fraction leave nothing for train")
    in_range("--workers", args.workers, at_least=1)
    in_range("--shards", args.shards, at_least=1)
    in_range("--max-chars", args.max_chars, at_least=1, at_most=1_000_000)
    in_range("--min-chars", args.min_chars, at_least=1, at_most=args.max_chars)
    in_range("--join-short", args.join_short, at_least=0, at_most=args.max_chars)
    in_range("--tokens-per-sample", args.tokens_per_sample, at_least=3)
    if not given:
        in_range("--vocab-size", args.vocab_size, at_least=6)
        # SentencePiece's own limits
        in_range("--character-coverage", args.character_coverage, at_least=0.98, at_most=1)
        in_range("--sample-mb", args.sample_mb, at_least=1)
    _check_paths(args)
    can_be_written("--output-dir", args.output_dir)


def _given_vocabulary(args: argparse.Namespace) -> bool:
    """Whether no vocabulary is to be learned; refuses flags that then have no effect."""
    if not (args.sentencepiece_model or args.vocabulary):
        return False
    flag = "--vocabulary" if args.vocabulary else "--sentencepiece-model"
    others = [
        *VOCABULARY_DEFAULTS,
        *(["sentencepiece_model", "lowercase"] if args.vocabulary else []),
    ]
    for name in others:
        if getattr(args, name) not in (None, False):
            other = name.replace("_", "-")
            raise ValueError(f"--{other} has no effect with {flag}; leave it out")
    return True


def _check_paths(args: argparse.Namespace) -> None:
    no_separators("--output-dir", args.output_dir, ":,")
    folder = os.path.join(os.path.realpath(args.output_dir), "")
    for path in input_files(args).values():
        if (os.path.realpath(path) + os.sep).startswith(folder):
            raise ValueError(
                f"{path} is inside --output-dir {args.output_dir}; give another folder"
            )
        if not os.path.isfile(path):
            if not os.path.exists(path):
                raise ValueError(f"{path} does not exist")
            if os.path.isdir(path):
                raise ValueError(f"{path} is not a file")
            raise ValueError(
                f"{path} is a pipe or a device; write what comes out of it to a file first, "
                "because it is read several times"
            )
