"""Who reads an input: a command of ours, the hub interface, or fairseq's own programs."""

import fnmatch
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

Contents = dict[str, tuple[int, bytes]]
CHECKPOINT = "checkpoint_best.pt"


class Reader(NamedTuple):
    """A program, its words in the folder of a scene, and what it writes.

    Args:
        program (str): the name of the command; of a function, what its errors are printed under.
        words (tuple of str): its arguments.
        results (tuple of str): patterns of the files that it writes; none: what it prints.
        leaves (tuple of str): patterns of files that may be there after an error, too, because a
            second run goes on with them.
        scene (str): the folder of sound files.
        function (callable, optional): is called instead of the program.
    """

    program: str
    arguments: tuple[str, ...]
    scene: str
    results: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    function: Callable | None = None

    @property
    def of_fairseq(self) -> bool:
        """Whether errors have fairseq's words, not ours."""
        return self.program.startswith("fairseq")

    @property
    def gives_numbers(self) -> bool:
        """Whether NaN in its result is a fault; elsewhere it can be the name of a label."""
        return not self.program.startswith(("tupe-prepare", "tupe-predict"))

    def call(self) -> None:
        """Run it, in this process."""
        if self.function is not None:
            _named_exceptions(self.function, self.program)
            return
        if self.program == "tupe-export":
            _without_comparison()
        kind, _, name = self.program.partition("-")
        package = "fairseq_cli" if kind == "fairseq" else "tupe_fairseq.commands"
        module = importlib.import_module(f"{package}.{name.replace('-', '_')}")
        sys.argv = [self.program, *self.arguments]
        (module.cli_main if kind == "fairseq" else module.main)()

    def result(self, after: Contents, output: str) -> bytes | None:
        """What it has made of its input; None: not all that it should have."""
        if self.function is not None:
            return "".join(line for line in output.splitlines() if line.startswith("[")).encode()
        if self.of_fairseq:
            return b"trained"
        if not self.results:
            lines = [line for line in output.splitlines() if not line.startswith(self.program)]
            return "\n".join(lines).encode()
        found = [_matching(after, pattern) for pattern in self.results]
        if not all(found):
            return None
        return b"".join(after[name][1] for names in found for name in names)

    def may_leave(self, name: str) -> bool:
        """Whether a file may be there after an error."""
        return any(fnmatch.fnmatch(name, pattern) for pattern in self.leaves)

    def words(self, before: Contents) -> set[str]:
        """Of these a message has one: the name of a file or folder, or a flag."""
        return {"--", *(name.rpartition("/")[2] for name in before)}


def _matching(after: Contents, pattern: str) -> Sequence[str]:
    return [name for name in sorted(after) if fnmatch.fnmatch(name, pattern)]


def _named_exceptions(function: Callable, program: str) -> None:
    """As a command ends, for a function that may raise what is documented."""
    import pickle

    try:
        function()
    except (OSError, ValueError, pickle.UnpicklingError) as error:
        print(f"{program}: error: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)


def _without_comparison() -> None:
    """Leave out tupe-export's comparison in another Python, which takes longer than a trial may."""
    import pytest

    from helpers.exporting import exporting_quickly

    exporting_quickly(pytest.MonkeyPatch())


def _hub(name: str) -> Callable:
    def load() -> None:
        import torch

        if name == "TupeRobertaModel":
            from tupe_fairseq import TupeRobertaModel as Model
        else:
            from fairseq.models.roberta import RobertaModel as Model
        hub = Model.from_pretrained(".", "model.pt", "data", bpe=None).eval()
        with torch.no_grad():
            features = hub.extract_features(torch.tensor([[0, 9, 5, 2]]))
        print(features.flatten()[:8].tolist())

    return load


def _training(*more: str) -> tuple[str, ...]:
    import tupe_fairseq

    return (
        "data", "--user-dir", tupe_fairseq.__path__[0], "--arch", "tupe_roberta", "--rel-pos",
        "--encoder-layers", "2", "--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "24",
        "--encoder-attention-heads", "2", "--task", "masked_lm", "--criterion", "masked_lm",
        "--sample-break-mode", "complete", "--tokens-per-sample", "24", "--max-positions", "24",
        "--skip-invalid-size-inputs-valid-test", "--optimizer", "adam", "--lr", "1e-4",
        "--batch-size", "4", "--disable-validation", "--num-workers", "0",
        "--data-buffer-size", "0", "--cpu", "--log-format", "json", "--max-update", "1",
        "--no-epoch-checkpoints", "--save-dir", "saved", *more,
    )  # fmt: skip


def _hydra() -> tuple[str, ...]:
    import tupe_fairseq

    sizes = ("layers=2", "embed_dim=16", "ffn_embed_dim=24", "attention_heads=2")
    return (
        "--config-dir", ".", "--config-name", "tiny", "hydra.run.dir=.",
        f"common.user_dir={tupe_fairseq.__path__[0]}", "task.data=data",
        "checkpoint.save_dir=saved", "checkpoint.no_save=true", "common.cpu=true",
        "dataset.num_workers=0", "dataset.data_buffer_size=0", "dataset.disable_validation=true",
        "optimization.max_update=1", *(f"+model.encoder_{size}" for size in sizes),
    )  # fmt: skip


_MODEL = ("--data", "data", "--cpu")
_PREPARED = ("out/*.bin", "out/*.idx", "out/*dict.txt")
_STEPS = ("out", "out/*")  # an interrupted or refused preparation can be gone on with
_TASK = ("--pretrain-dir", "data", "--output-dir", "out", "--workers", "1")
_FINETUNE = (
    "--task", "RTE", "--data", "RTE", "--checkpoint", "model.pt", "--output-dir", "runs", "--cpu",
    "--epochs", "2", "--batch-size", "3", "--lrs", "2e-5", "--seeds", "1",
)  # fmt: skip
_COMPARE = (
    "data", "--output-dir", "out", "--schemes", "learned; tupe --rel-pos", "--updates", "8",
    "--warmup-updates", "1", "--validate-every", "4", "--seeds", "1", "--cpu", "--threads", "1",
)  # fmt: skip
_RESET = (
    "--reset-optimizer", "--reset-dataloader", "--reset-meters", "--reset-lr-scheduler",
)  # fmt: skip
_TRAIN_LEAVES = ("saved", "saved/*")

# fairseq's own training, which makes the checkpoint of the scenes
TRAINING = Reader("fairseq-train", _training(), "pretrained")

READERS: dict[str, Reader] = {
    "encode": Reader(
        "tupe-encode", ("model.pt", "in.txt", "--output-file", "out.npy", *_MODEL), "pretrained",
        ("out.npy",),
    ),
    "score": Reader(
        "tupe-score", ("model.pt", "--input", "in.txt", "--output", "out.tsv", *_MODEL),
        "pretrained", ("out.tsv",),
    ),
    "plot": Reader(
        "tupe-plot", ("model.pt", "--data", "data", "--output-dir", "out", "--length", "6",
        "--dpi", "10"), "pretrained", ("out/position_bias.png",),
    ),
    "export": Reader(
        "tupe-export", ("model.pt", "--data", "data", "--output-dir", "out"), "pretrained",
        ("out/model.safetensors",),
    ),
    "finetune --dry-run": Reader(
        "tupe-finetune", (*_FINETUNE, "--dry-run", "--balance"), "finished",
    ),
    "TupeRobertaModel": Reader("hub", (), "pretrained", function=_hub("TupeRobertaModel")),
    "RobertaModel": Reader("fairseq's hub", (), "pretrained", function=_hub("RobertaModel")),
    "fairseq-train --restore-file": Reader(
        "fairseq-train", _training("--no-save", "--restore-file", "model.pt", *_RESET),
        "pretrained",
        leaves=_TRAIN_LEAVES,
    ),
    "fairseq-train --finetune-from-model": Reader(
        "fairseq-train", _training("--no-save", "--finetune-from-model", "model.pt"),
        "pretrained",
        leaves=_TRAIN_LEAVES,
    ),
    "predict": Reader(
        "tupe-predict", (f"model/{CHECKPOINT}", "in.csv", "--output-file", "out.csv", "--cpu"),
        "fine-tuned", ("out.csv",),
    ),
    "predict rows": Reader(
        "tupe-predict", (f"model/{CHECKPOINT}", "in.tsv", "--output-file", "out.tsv", "--cpu"),
        "fine-tuned", ("out.tsv",),
    ),
    "extend": Reader(
        "tupe-extend", ("model.pt", "--data", "data", "--max-positions", "48", "--method", "tile",
        "--output-dir", "out"), "pretrained", ("out/model.pt",),
    ),
    "score --lengths": Reader(
        "tupe-score", ("model.pt", "--input", "in.txt", "--lengths", "6,12", *_MODEL),
        "pretrained",
    ),
    "convert": Reader(
        "tupe-convert", ("--checkpoint", "theirs.pt", "--dict", "theirs.txt", "--bpe-codes",
        "bpe-code", "--output-dir", "out"), "authors", ("out/model.pt", "out/dict.txt"),
    ),
    "convert --untie": Reader(
        "tupe-convert", ("--checkpoint", "theirs.pt", "--dict", "theirs.txt", "--untie",
        "--gpt2-encoder-json", "encoder.json", "--gpt2-vocab-bpe", "vocab.bpe",
        "--output-dir", "out"), "stock", ("out/model.pt", "out/dict.txt"),
    ),
    "convert a folder": Reader(
        "tupe-convert", ("--checkpoint", "folder", "--output-dir", "out"), "folder",
        ("out/model.pt", "out/dict.txt"),
    ),
    "prepare-glue": Reader(
        "tupe-prepare-glue", ("--glue-dir", "glue", "--tasks", "CoLA,STS-B", *_TASK), "official",
        ("out/*.bin", "out/*.idx", "out/*.index"), _STEPS,
    ),
    "prepare-pretrain": Reader(
        "tupe-prepare-pretrain", ("--input", "in.txt", "--sentencepiece-model",
        "data/sentencepiece.bpe.model", "--valid-fraction", "0.2", "--test-fraction", "0",
        "--workers", "1", "--output-dir", "out"), "text", _PREPARED, _STEPS,
    ),
    "prepare-pretrain --vocab-size": Reader(
        "tupe-prepare-pretrain", ("--input", "in.txt", "--vocab-size", "110",
        "--character-coverage", "1", "--model-type", "bpe", "--valid-fraction", "0.2",
        "--test-fraction", "0", "--workers", "1", "--output-dir", "out"), "text", _PREPARED,
        _STEPS,
    ),
    "prepare-pretrain rows": Reader(
        "tupe-prepare-pretrain", ("--input", "in.jsonl", "--text-field", "text",
        "--sentencepiece-model", "data/sentencepiece.bpe.model", "--valid-fraction", "0.2",
        "--test-fraction", "0", "--workers", "1", "--output-dir", "out"), "text", _PREPARED,
        _STEPS,
    ),
    "prepare-pretrain again": Reader(
        "tupe-prepare-pretrain", ("--input", "in.txt", "--sentencepiece-model",
        "data/sentencepiece.bpe.model", "--valid-fraction", "0.2", "--test-fraction", "0",
        "--workers", "1", "--output-dir", "out"), "prepared", _PREPARED, _STEPS,
    ),
    "finetune again": Reader(
        "tupe-finetune", _FINETUNE, "finished", ("runs/RTE/results.md", "runs/submission/*"),
        # the second line: copies of the data folder's files, which complete a kept checkpoint
        ("runs/RTE/steps.json",
        *(f"runs/RTE/*/{name}" for name in ("input0*", "label*", "report.json"))),
    ),
    "compare again": Reader(
        "tupe-compare", _COMPARE, "compared", ("out/results.md",), ("out/steps.json",),
    ),
    "compare --config": Reader("tupe-compare", ("--config", "study.yaml"), "compared"),
    "fairseq-train": Reader(
        "fairseq-train", _training("--no-save"), "pretrained", leaves=_TRAIN_LEAVES
    ),
    "fairseq-hydra-train": Reader(
        "fairseq-hydra-train", _hydra(), "pretrained",
        leaves=(*_TRAIN_LEAVES, ".hydra", ".hydra/*", "*.log"),
    ),
}  # fmt: skip
for _kind, _more in (
    ("csv", ("classification", "--text", "text", "--label", "label")),
    ("tsv", ("regression", "--text", "text", "--label", "label")),
    ("jsonl", ("multilabel", "--text", "text", "--label", "label")),
    ("conll", ("tagging",)),
    ("parquet", ("classification", "--text", "text", "--label", "label")),
):
    READERS[f"prepare-task {_kind}"] = Reader(
        "tupe-prepare-task", ("--kind", *_more, "--train", f"in.{_kind}", *_TASK), "rows",
        ("out/*.bin", "out/*.idx", "out/label/*"), _STEPS,
    )  # fmt: skip
for _kind in ("gz", "xz", "bz2"):
    READERS[f"prepare-pretrain {_kind}"] = Reader(
        "tupe-prepare-pretrain", ("--input", f"in.txt.{_kind}", "--sentencepiece-model",
        "data/sentencepiece.bpe.model", "--valid-fraction", "0.2", "--test-fraction", "0",
        "--workers", "1", "--output-dir", "out"), "text", _PREPARED, _STEPS,
    )  # fmt: skip
