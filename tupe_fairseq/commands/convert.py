"""tupe-convert: convert a checkpoint of the TUPE authors or of RoBERTa to this project's format."""

import argparse
import logging
import os
import shutil
from typing import List, Optional

import torch

from tupe_fairseq.checkpoint import convert
from tupe_fairseq.checkpoint.checked_tensors import tensors_in
from tupe_fairseq.checkpoint.contents import options_in, symbols_of, vocabulary_version
from tupe_fairseq.checkpoint.restricted_load import CheckpointError, restricted_load
from tupe_fairseq.commands.program import run_program
from tupe_fairseq.files.names import DICTIONARY

logger = logging.getLogger("tupe-convert")

_KEPT = {"args", "cfg", "model"}
_DROPPED = {"criterion", "extra_state", "last_optimizer_state", "optimizer_history", "task_state"}


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tupe-convert",
        description="Convert a checkpoint of the TUPE authors' code or of fairseq's stock RoBERTa "
        "(which becomes tupe_roberta with --position-encoding learned) into OUT/model.pt and "
        "OUT/dict.txt. Weights and options are kept; the training state is not. The file is read "
        "without running any code that it contains.",
        epilog="example: tupe-convert --checkpoint checkpoint_best.pt --dict data-bin/dict.txt "
        "--output-dir tupe-base",
    )
    parser.add_argument(
        "--checkpoint", required=True, metavar="FILE", help="the checkpoint to convert"
    )
    parser.add_argument("--dict", required=True, metavar="FILE", help="its dict.txt")
    parser.add_argument(
        "--label-dict",
        metavar="FILE",
        help="the label/dict.txt of a fine-tuned checkpoint: keeps the order of its "
        "classes and makes OUT a sentence_prediction checkpoint",
    )
    parser.add_argument(
        "--bpe-codes", metavar="FILE", help="its fastBPE codes; copied to OUT/bpecodes"
    )
    parser.add_argument("--output-dir", required=True, metavar="OUT", help="folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace files of an earlier run")
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    run_program(get_parser(), run, argv)


def run(args: argparse.Namespace) -> None:
    """Convert; everything is checked before anything is written.

    Raises:
        OSError, ValueError: if an input is absent or wrong, or an output already there.
    """
    lines = _read_lines(args.dict)
    label_lines = _read_lines(args.label_dict) if args.label_dict else None
    codes = _read_lines(args.bpe_codes) if args.bpe_codes else None
    state = restricted_load(args.checkpoint)
    unknown = set(state) - _KEPT - _DROPPED
    if unknown or "model" not in state:
        raise CheckpointError(
            f"{args.checkpoint} has the entries {', '.join(sorted(map(str, state)))}; expected are "
            "model (a state dict), args or cfg, and, which are dropped, "
            f"{', '.join(sorted(_DROPPED))}"
        )
    given = options_in(state, args.checkpoint)
    tensors = tensors_in(state, args.checkpoint)
    converter = convert.converter_of(given)
    options = converter.convert_options(given)
    converted_lines = convert.convert_dictionary(lines, args.dict, converter.HIDDEN_SYMBOLS)
    symbols = symbols_of(converted_lines)
    model = convert.convert_tensors(tensors, converter.rename_tensors, options, len(symbols))
    head = None
    if label_lines is not None:
        head = _labelled_head(model, given, label_lines, args.label_dict)

    files = {DICTIONARY: converted_lines}
    model["encoder.vocabulary_version"] = vocabulary_version(symbols)
    if label_lines is not None:
        files[os.path.join("input0", DICTIONARY)] = converted_lines
        # unchanged: both loaders subtract their own number of built-in symbols from a label
        files[os.path.join("label", DICTIONARY)] = label_lines
    if codes is not None:
        files["bpecodes"] = codes
    existing = [
        name for name in ["model.pt", *files] if os.path.exists(os.path.join(args.output_dir, name))
    ]
    if existing and not args.overwrite:
        raise FileExistsError(
            f"{args.output_dir} already holds {', '.join(existing)}; give another --output-dir, or "
            "--overwrite"
        )

    for name, content in files.items():
        path = os.path.join(args.output_dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(line + "\n" for line in content)
    path = os.path.join(args.output_dir, "model.pt")
    torch.save(convert.new_state(model, options, head), path + ".tmp")
    shutil.move(path + ".tmp", path)

    dropped = sorted(set(state) & _DROPPED)
    logger.info("dropped the training state: %s", ", ".join(dropped) or "none")
    logger.info(
        "a model of %s: %d tensors became %d, float32; options: %s",
        converter.NAME, len(tensors), len(model), vars(options),
    )  # fmt: skip
    logger.info("classification heads: %s", convert.classification_heads(model) or "none")
    logger.info(
        "wrote %s", ", ".join(os.path.join(args.output_dir, n) for n in ["model.pt", *files])
    )


def _read_lines(path: str) -> List[str]:
    with open(path, encoding="utf-8") as file:  # as fairseq: only a newline ends a line
        return [line.rstrip("\n") for line in file]


def _labelled_head(model, given, label_lines, label_dict) -> str:
    """The name of the fine-tuned head, whose classes the label dictionary must cover."""
    heads = convert.classification_heads(model)
    name = given.get("classification_head_name", "sentence_classification_head")
    if name not in heads:
        raise CheckpointError(
            f"--label-dict is given, but the checkpoint has no classification head {name!r}; it "
            f"has {', '.join(heads) or 'none'}"
        )
    if len(label_lines) < heads[name]:
        raise CheckpointError(
            f"{label_dict} lists {len(label_lines)} labels, but head {name!r} has {heads[name]} "
            "classes"
        )
    return name


if __name__ == "__main__":
    main()
