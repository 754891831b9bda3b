"""tupe-convert: checkpoints of other code, and transformers folders, become this project's."""

import argparse
import atexit
import logging
import os
import shutil
import tempfile

from tupe_fairseq.cli import arg_types
from tupe_fairseq.cli.shared_flags import CHOICES, add_vocabulary_flags, vocabulary_files

logger = logging.getLogger("tupe-convert")


def checkpoint_or_folder(text: str) -> str:
    is_for_transformers = os.path.exists(os.path.join(text, "config.json"))
    return text if is_for_transformers else arg_types.checkpoint(text)


def roberta_files(folder: str) -> list[str] | None:
    """GPT-2's byte BPE with ids of its own: of a RoBERTa as transformers 4 and 5 save it."""
    names = ("tokenizer.json", "vocab.json", "merges.txt", "dict.txt")
    tokenizer, *files, dictionary = (os.path.join(folder, name) for name in names)
    if not os.path.isfile(tokenizer) or all(map(os.path.isfile, files)):
        return files if os.path.isfile(tokenizer) else None
    from tokenizers import Tokenizer, pre_tokenizers

    whole = Tokenizer.from_file(tokenizer)
    is_bytes = isinstance(whole.pre_tokenizer, pre_tokenizers.ByteLevel)
    if not is_bytes or os.path.isfile(dictionary):
        return None
    made = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return whole.model.save(made)


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-convert",
        description="Convert a checkpoint of the TUPE authors' code or of fairseq's RoBERTa, or a "
        "folder of transformers (see tupe-export), to OUT/model.pt and OUT/dict.txt. Weights, "
        "options and heads are kept, the training state is not; no code of the file runs. The "
        "vocabulary of a RoBERTa's folder is found; of other models give its files.",
        epilog="example: tupe-convert --checkpoint checkpoint_best.pt --dict data-bin/dict.txt "
        "--bpe-codes bpe-code --output-dir tupe-base",
    )
    add = parser.add_argument
    add(
        "--checkpoint",
        required=True,
        metavar="FILE",
        type=checkpoint_or_folder,
        help="the checkpoint, or a folder with config.json and model.safetensors",
    )
    add(
        "--dict",
        metavar="FILE",
        type=arg_types.file,
        help="its dict.txt; of a folder only if it has neither dict.txt nor tokenizer.json",
    )
    add(
        "--label-dict",
        metavar="FILE",
        type=arg_types.file,
        help="label/dict.txt of a fine-tuned checkpoint: keeps the order of its classes; a folder "
        "has its labels in config.json",
    )
    add(
        "--untie",
        action="store_true",
        help="make TUPE-A of a model with learned positions, RoBERTa's or this project's: the "
        "position bias is new, and the model must be trained on",
    )
    add_vocabulary_flags(parser)
    add(
        "--output-dir",
        required=True,
        metavar="OUT",
        type=arg_types.writable,
        help="folder to write; with a vocabulary, it serves as --pretrain-dir and --vocabulary",
    )
    add("--overwrite", action="store_true", help="replace files of an earlier run")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = get_parser()
    args = parser.parse_args(argv)
    vocabulary = vocabulary_files(parser, args)
    if not vocabulary and not args.dict and (files := roberta_files(args.checkpoint)):
        args.gpt2_encoder_json, args.gpt2_vocab_bpe = files
        vocabulary = vocabulary_files(parser, args)
    if not args.dict and not os.path.isdir(args.checkpoint):
        parser.error(f"--checkpoint {args.checkpoint} is a file, which needs --dict, too")
    from tupe_fairseq.checkpoint.convert import MODEL
    from tupe_fairseq.cli.printed_commands import next_command
    from tupe_fairseq.data.tokenizer import VOCABULARY_FILES
    from tupe_fairseq.files import new_output_folder

    with new_output_folder(
        args.output_dir, MODEL, others=VOCABULARY_FILES, overwrite=args.overwrite
    ) as folder:
        options = convert(args, vocabulary, folder)
    logger.info("wrote %s", args.output_dir)
    if vocabulary is None:
        logger.info("no vocabulary: to prepare data for it, give its files, too (%s)", CHOICES)
    print(next_command(args.output_dir, options, vocabulary is not None))


def convert(
    args: argparse.Namespace, vocabulary: tuple[str, list[str]] | None, folder: str
) -> argparse.Namespace:
    """Write the files of OUT to a folder; the options of the model."""
    from tupe_fairseq.checkpoint.checkpoint import classification_heads, loading
    from tupe_fairseq.checkpoint.convert import complete, read_model, write_model
    from tupe_fairseq.checkpoint.from_authors import HIDDEN_SYMBOLS
    from tupe_fairseq.checkpoint.untie import untie
    from tupe_fairseq.data.dictionary import DICTIONARY
    from tupe_fairseq.data.tokenizer import Tokenizer
    from tupe_fairseq.export.read_folder import read_folder
    from tupe_fairseq.files import read_json

    path = args.checkpoint
    if os.path.isdir(path):
        numbers = args.gpt2_encoder_json and read_json(args.gpt2_encoder_json)
        model = read_folder(path, args.dict, args.label_dict, numbers)
    else:
        model = read_model(path, args.dict, args.label_dict)
        if not model.origin and not args.untie:
            raise ValueError(
                f"{path} is a checkpoint of this project; use it without converting, or make TUPE "
                "of a learned one with --untie"
            )
    with loading(path):
        if args.untie:
            model = untie(model)
            complete(model)
    first = tuple(line.rpartition(" ")[0] for line in model.lines[: len(HIDDEN_SYMBOLS)])
    if vocabulary is not None and vocabulary[0] == "fastbpe" and first != HIDDEN_SYMBOLS:
        raise ValueError(
            "--bpe-codes is for checkpoints of the TUPE authors' code, whose text was lower case "
            "and tokenized (Moses); how another model's text was prepared is not known"
        )
    write_lines(os.path.join(folder, DICTIONARY), model.lines)
    if model.options.task != "masked_lm":
        write_lines(os.path.join(folder, "input0", DICTIONARY), model.lines)
    if model.labels is not None:
        # unchanged: both loaders subtract their own number of built-in symbols from a label
        write_lines(os.path.join(folder, "label", DICTIONARY), model.labels)
    if vocabulary is not None:
        kind, files = vocabulary
        record = {"max_positions": model.options.max_positions}
        Tokenizer(kind, files, os.path.join(folder, DICTIONARY), record).copy_to(folder)
    write_model(folder, model)
    for remark in model.remarks:
        logger.info("%s", remark)
    logger.info("%d tensors of %s, float32", len(model.tensors), model.origin or "this project")
    logger.info("classification heads: %s", classification_heads(model.tensors) or "none")
    return model.options


def write_lines(path: str, lines: list[str]) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
