"""The argument parser of all commands, and flags that several of them share."""

import argparse
import difflib
import os
from collections.abc import Iterable
from typing import NoReturn

from tupe_fairseq.cli.arg_types import (
    at_least,
    checkpoint,
    comma_list,
    count,
    file,
    folder,
    user_dir,
    writable,
)

#: kind of vocabulary -> its flags, in the order of the kind's files
VOCABULARIES = {
    "gpt2": ("gpt2_encoder_json", "gpt2_vocab_bpe"),
    "sentencepiece": ("sentencepiece_model",),
}
#: the choices, as messages name them
CHOICES = "--gpt2-encoder-json and --gpt2-vocab-bpe, or --sentencepiece-model"

_STUDY = "see 'A study' in examples/positions"
_HEADS = "transformers trains such models, see examples/export"
_VOTES = "see 'Votes of seeds, temperatures' in examples/tasks"
#: flags that earlier versions had, and what to do instead
GONE = {
    "--bpe-codes": "split text by the authors' scripts, as examples/convert shows",
    "--calibrate": _VOTES,
    "--candidates": _HEADS,
    "--ensemble": _VOTES,
    "--finetune-flags": f"run tupe-finetune on each run, {_STUDY}",
    "--join-short": "run examples/pretraining/paper_text.py on the text before",
    "--pairs": f"run tupe-score on each run, {_STUDY}",
    "--shards": "prepare the text in parts, as examples/pretraining shows",
    "--stride": _HEADS,
    "--split-sentences": "run examples/pretraining/paper_text.py on the text before",
    "--tasks": f"run tupe-finetune on each run, {_STUDY}",
    "--test-fraction": "pre-training needs no test split",
    "--test-input": "pre-training needs no test split",
}


class _Formatter(argparse.HelpFormatter):
    def add_usage(self, usage, actions, groups, prefix=None):
        """Show only required arguments; the list below has the rest."""
        options = argparse.Action(["options"], "options", nargs=0)
        needed = [action for action in actions if action.required]
        super().add_usage(usage, [options, *needed], [], prefix)


class Parser(argparse.ArgumentParser):
    """argparse's parser, but an error is one line, without the usage."""

    def __init__(self, **options):
        super().__init__(formatter_class=_Formatter, **options)

    def error(self, message: str) -> NoReturn:
        flags = [word.partition("=")[0] for word in message.split() if word.startswith("--")]
        for flag in flags if message.startswith("unrecognized arguments") else ():
            near = difflib.get_close_matches(flag, self._option_string_actions, 1)
            if flag in GONE:
                message += f"; {flag} is gone: {GONE[flag]}"
            elif near:
                message += f"; did you mean {near[0]}?"
        self.exit(2, f"{self.prog}: error: {message}\n")


def add_vocabulary_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("vocabulary (the files of one kind)").add_argument
    for name, text in {
        "gpt2-encoder-json": "GPT-2's encoder.json",
        "gpt2-vocab-bpe": "GPT-2's vocab.bpe, with --gpt2-encoder-json",
        "sentencepiece-model": "the SentencePiece model that encoded the text",
    }.items():
        add(f"--{name}", type=file, metavar="FILE", help=text)


def vocabulary_files(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> tuple[str, list[str]] | None:
    """Take the flags of a vocabulary out of ``args``; the kind that they name, and its files."""
    files = {kind: [vars(args).pop(name) for name in x] for kind, x in VOCABULARIES.items()}
    given = [(kind, paths) for kind, paths in files.items() if any(paths)]
    if len(given) > 1 or not all(path for _, paths in given for path in paths):
        parser.error(f"give the files of one vocabulary: {CHOICES}")
    return given[0] if given else None


def add_data_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=folder, metavar="DIR",
        help="folder with dict.txt, the vocabulary, report.json and label/dict.txt; missing files "
        "are read from the checkpoint's folder, the default")  # fmt: skip


def add_user_dir_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user-dir", type=user_dir, metavar="DIR",
        help="a package that registers your own position encodings or kinds of tasks")  # fmt: skip


def add_output_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of commands that write a model."""
    add = parser.add_argument
    add("--output-dir", required=True, metavar="OUT", type=writable, help="folder to write")
    add("--overwrite", action="store_true", help="replace the files of an earlier run in OUT")


def add_model_flags(parser: argparse.ArgumentParser, half: bool = True) -> None:
    """Flags of commands that run a model over text."""
    parser.add_argument("checkpoint", type=checkpoint, metavar="CHECKPOINT", help="the model")
    add_data_flag(parser)
    add_user_dir_flag(parser)
    add = parser.add_argument_group("computation").add_argument
    if half:
        add("--fp16", action="store_true", help="half precision, for GPUs")
    add("--cpu", action="store_true", help="use the CPU even if there is a GPU")


def load_model(args: argparse.Namespace, *parts: str):
    """The model with its ``parts`` on the device, its tokenizer, and the folders of both."""
    import torch

    from tupe_fairseq.checkpoint.find import folders_of
    from tupe_fairseq.checkpoint.model import read_with_tokenizer

    device = "cuda" if torch.cuda.is_available() and not args.cpu else "cpu"
    if args.fp16 and device == "cpu":
        raise ValueError("--fp16 needs a GPU; drop it")
    folders = folders_of(args.checkpoint, args.data)
    model, tokenizer = read_with_tokenizer(args.checkpoint, folders)
    for part in (getattr(model, name) for name in parts):
        (part.half() if args.fp16 else part).to(device)
    return model, tokenizer, folders


def add_device_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of commands that start several trainings."""
    add = parser.add_argument_group("machine").add_argument
    add("--cpu", action="store_true", help="train on the CPU")
    add("--fp16", action="store_true", help="mixed precision, on GPUs")
    add(
        "--gpus", type=comma_list(at_least(0)), metavar="LIST",
        help="such as 0,1, to run on several, each run on one GPU; default: the first",
    )  # fmt: skip
    add("--parallel", type=count, metavar="N", help="runs at a time; default: one per GPU")


def training_devices(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[str]:
    """Values of CUDA_VISIBLE_DEVICES for the runs; "" is the CPU, also if there is no GPU."""
    if args.cpu and (args.fp16 or args.gpus):
        parser.error(f"{'--fp16' if args.fp16 else '--gpus'} needs a GPU; drop it, or drop --cpu")
    if args.cpu or args.dry_run:
        return [""]
    import torch

    num_gpus = torch.cuda.device_count()
    if max(args.gpus or [-1]) >= num_gpus:
        parser.error(
            f"--gpus {max(args.gpus)}: torch finds {num_gpus} GPUs on this machine, counted from 0"
        )
    if not num_gpus and args.fp16:
        parser.error("--fp16 needs a GPU, and torch finds none on this machine; drop it")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(num_gpus)))).split(",")
    return [visible[gpu] for gpu in args.gpus or [0]] if num_gpus else [""]


def refuse_overwriting(
    parser: argparse.ArgumentParser, output: str | None, inputs: Iterable[str | None]
) -> None:
    for path in inputs:
        if path and output and os.path.exists(path) and os.path.exists(output):
            if os.path.samefile(path, output):
                parser.error(f"--output-file {output} is also an input")
