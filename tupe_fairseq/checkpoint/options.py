"""The options of commands that take a checkpoint and are functions in Python, too."""

import os
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from tupe_fairseq.checkpoint.find import find_checkpoint
from tupe_fairseq.flags import (
    Options,
    UserDir,
    VocabularyFiles,
    at_least,
    count,
    existing,
    file,
    folder,
    one_of,
    option,
    output_file,
    shown_as,
    writable,
)
from tupe_fairseq.options import LARGEST, POOLINGS


@shown_as("CHECKPOINT")
def checkpoint(value: Any) -> str:
    """An existing checkpoint, or a folder that has one."""
    return file(find_checkpoint(existing(value)))


@dataclass
class CheckpointOptions(UserDir):
    checkpoint: str = option("a checkpoint, or its folder", checkpoint, positional=True)


@dataclass
class OutputOptions(Options):
    output_dir: str = option("folder to write", writable, metavar="OUT")
    _: KW_ONLY
    overwrite: bool = option("replace the files of an earlier run in OUT", bool, False)


@dataclass(kw_only=True)
class ModelOptions(CheckpointOptions):
    data: str | None = option(
        "folder with dict.txt, the vocabulary, report.json and label/dict.txt, searched before the "
        "checkpoint's folder",
        folder, None,
    )  # fmt: skip

    def folders(self) -> list[str]:
        """The folders to search for the model's files: the one of its data, then its own."""
        own = os.path.dirname(self.checkpoint) or "."
        return [own] if self.data is None else [self.data, own]


@dataclass(kw_only=True)
class RunOptions(ModelOptions):
    cpu: bool = option("use the CPU even if there is a GPU", bool, False, group="computation")

    def device(self) -> str:
        import torch

        return "cuda" if torch.cuda.is_available() and not self.cpu else "cpu"


def refuse_overwriting(output: str | None, inputs: Iterable[str | None]) -> None:
    for path in inputs:
        if path and output and os.path.exists(path) and os.path.exists(output):
            if os.path.samefile(path, output):
                raise ValueError(f"--output-file {output} is also an input")


@dataclass(kw_only=True)
class ScoreOptions(RunOptions):
    """Score sentences by pseudo-log-likelihood: each token is masked in turn, and the logarithms of
    its probabilities are summed. --pairs gives the accuracy on minimal pairs.

    examples: tupe-score checkpoints valid.txt --output-file scores.tsv; tupe-score checkpoints
    --pairs blimp/data --report blimp-results
    """

    input: str | None = option(
        "text, a sentence in each line, also .gz, .xz, .bz2; a blank line has the score 0",
        file, None, unset="standard input", positional=True, metavar="INPUT",
        not_with=("pairs",),
    )  # fmt: skip
    output_file: str | None = option(
        "OUT.tsv or OUT.jsonl for the score of each row",
        output_file(".tsv", ".jsonl"), None,
        unset="standard output as .tsv, or with --pairs nothing",
    )  # fmt: skip
    cut: bool = option(
        "truncate and count sentences that are longer than the model; otherwise an error",
        bool, False,
    )  # fmt: skip
    pairs: list[str] | None = option(
        ".jsonl files of minimal pairs (also .gz, .xz, .bz2), or folders, such as BLiMP's, with "
        "sentence_good, sentence_bad and optionally linguistics_term",
        default=None, many=True, metavar="PATH", group="minimal pairs",
    )  # fmt: skip
    report: str | None = option(
        "folder for results.md and results.json of --pairs",
        writable, None, group="minimal pairs", needs="pairs",
    )  # fmt: skip
    pairs_per_file: int | None = option(
        "score the first N pairs of each file", count, None, group="minimal pairs", needs="pairs"
    )

    def check(self) -> None:
        refuse_overwriting(self.output_file, [self.checkpoint, self.input, *(self.pairs or [])])


@dataclass(kw_only=True)
class ExtendOptions(OutputOptions, ModelOptions):
    """Make a checkpoint of this project, pre-trained or fine-tuned, take longer sequences, and
    write it to OUT/model.pt, with its dictionary, vocabulary and report.json. Only a table of
    positions changes (tupe, learned, disentangled); the training state is not kept.

    example: tupe-extend checkpoints --method interpolate --max-positions 2048 --output-dir longer
    """

    max_positions: int = option(
        "the longest sequence in tokens, <s> and </s> included; above the checkpoint's",
        at_least(2, LARGEST),
    )  # fmt: skip
    method: str | None = option(
        "how to make the new rows of a position table: interpolate spreads the trained rows over "
        "the new length (and stretches enformer's distances), tile repeats them; [CLS]'s row stays "
        "as it is",
        one_of("interpolate", "tile"), None,
    )  # fmt: skip


@dataclass(kw_only=True)
class ExportOptions(VocabularyFiles, OutputOptions, ModelOptions):
    """Write a folder that transformers, sentence-transformers and, with --onnx, onnxruntime use
    like any other model, without fairseq and this package. It is only written if it matches the
    checkpoint: the same token ids, logits within 1e-4.

    example: tupe-export checkpoints --output-dir my-model --onnx
    """

    model_type: str = option(
        "tupe, whose code is in OUT, or transformers' own roberta, for --position-encoding learned "
        "without further position options",
        one_of("tupe", "roberta"), "tupe",
    )  # fmt: skip
    pooling: str = option(
        "vector of a text in sentence-transformers: the mean of its tokens, or that of <s>",
        one_of(*POOLINGS), "mean",
    )  # fmt: skip
    onnx: bool = option("also write OUT/onnx/model.onnx for onnxruntime", bool, False)


@shown_as("CHECKPOINT")
def checkpoint_or_folder(value: Any) -> str:
    """A checkpoint, or a folder for transformers."""
    text = os.fspath(value)
    if not os.path.exists(text) and not text.endswith(".pt"):
        raise ValueError(
            f"{text} does not exist; if it is a model of the Hugging Face hub, download it first: "
            f"hf download {text} --local-dir {os.path.basename(text)}"
        )
    is_for_transformers = os.path.exists(os.path.join(text, "config.json"))
    if not is_for_transformers and os.path.exists(os.path.join(text, "model.safetensors")):
        raise ValueError(f"{text} has model.safetensors, but no config.json")
    return text if is_for_transformers else checkpoint(text)


@dataclass
class ConvertOptions(VocabularyFiles, OutputOptions, CheckpointOptions):
    """Convert a checkpoint of the TUPE authors' code or of fairseq's RoBERTa, or a folder of
    transformers (see tupe-export), to OUT/model.pt and OUT/dict.txt. It keeps weights, options and
    heads, but not the training state, and runs no code from the file. Folders of tupe-export and
    of RoBERTa have the vocabulary; else give its files.

    example: tupe-convert checkpoint_best.pt --dictionary data-bin/dict.txt --output-dir tupe-base
    """

    checkpoint: str = option(
        "the checkpoint, or a folder with config.json and model.safetensors",
        checkpoint_or_folder, positional=True,
    )  # fmt: skip
    _: KW_ONLY
    dictionary: str | None = option(
        "its dict.txt, if neither that nor tokenizer.json is beside it", file, None
    )
    label_dict: str | None = option(
        "label/dict.txt of a fine-tuned checkpoint, for the order of its classes; a folder has its "
        "labels in config.json",
        file, None,
    )  # fmt: skip
    untie: bool = option(
        "turn a model with learned positions, RoBERTa's or this project's, into TUPE-A; its "
        "position bias is new, so you must train it further",
        bool, False,
    )  # fmt: skip
