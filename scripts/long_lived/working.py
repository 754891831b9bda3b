"""What the commands work on while they are ended: small inputs, large enough for some seconds."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from ending import LIMIT

REPO = Path(__file__).resolve().parents[2]
# this copy of the package, whichever is installed
sys.path[:0] = [str(REPO / "scripts" / "soak"), str(REPO / "tests"), str(REPO)]

import subjects  # noqa: E402  of scripts/soak

from helpers import predicting, vocabularies  # noqa: E402

_ROWS, _SCORED = 8_000, 600


@dataclass(frozen=True)
class Command:
    """A command that can be ended.

    Args:
        words (callable): output folder to what is run: the name of a program, and its arguments.
        limit (float): seconds in which it must end.  A DataLoader's workers look only every 5
            seconds whether a terminated fairseq-train is gone.
        is_fairseqs (bool): its last words are not ours.
    """

    words: Callable[[Path], list[str]]
    limit: float = LIMIT
    is_fairseqs: bool = False


def write_inputs(folder: Path) -> None:
    """Beside those of scripts/soak: rows, a fine-tuned model, a checkpoint of the authors."""
    if (folder / "rows.csv").exists():
        return
    torch.manual_seed(1)
    predicting.write_fine_tuned(folder / "classifier", "classification", 1)
    vocabularies.write_authors(_made(folder / "authors"))
    texts = (folder / "text" / "train.txt").read_text().split("\n\n")
    texts = [text.strip().replace('"', "") for text in texts if text.strip()]
    texts *= 1 + _ROWS // len(texts)
    (folder / "some.txt").write_text("\n".join(texts[:_SCORED]) + "\n")
    rows = [f'"{text}",{"yes" if n % 3 else "no"}\n' for n, text in enumerate(texts[:_ROWS])]
    (folder / "rows.csv").write_text("text,label\n" + "".join(rows))


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def commands(folder: Path, glue: Path) -> dict[str, Command]:
    """All console scripts of pyproject.toml, and fairseq-train with the plugin.

    Args:
        folder (Path): with the inputs of scripts/soak and of :func:`write_inputs`.
        glue (Path): the official files of GLUE.
    """
    data, model = folder / "data", folder / "model" / "checkpoint_last.pt"
    text, valid = folder / "text" / "train.txt", folder / "text" / "valid.txt"
    classifier, authors = folder / "classifier" / "checkpoint_best.pt", folder / "authors"
    rows = folder / "rows.csv"

    def module(made: Callable[[Path], list[str]]) -> Command:
        """A command of scripts/soak, which starts Python with a module."""

        def words(out: Path) -> list[str]:
            _, _, name, *rest = made(out)
            return [f"tupe-{name.split('.')[-1].replace('_', '-')}", *rest]

        return Command(words)

    def given(program: str, *words, **options) -> Command:
        def made(out: Path) -> list[str]:
            return [program, *(str(word).replace("OUT", str(out)) for word in words)]

        return Command(made, **options)

    def compare(out: Path, more: str = "") -> list[str]:
        *words, train_flags = subjects.compare(data, out)
        return [*words, train_flags + more, "--parallel", "2"]

    return {
        "compare": module(compare),
        "compare, loaders": module(lambda out: compare(out, " --num-workers 2")),
        "convert": given(
            "tupe-convert", "--checkpoint", authors / "theirs.pt", "--dict",
            authors / "theirs.txt", "--bpe-codes", authors / "bpe-code", "--output-dir", "OUT/new",
        ),
        "encode": given(
            "tupe-encode", classifier, rows, "--text", "text", "--output-file", "OUT/rows.npy",
            "--cpu",
        ),
        "export": given(
            "tupe-export", model, "--data", data, "--onnx", "--output-dir", "OUT/folder"
        ),
        "extend": given(
            "tupe-extend", model, "--data", data, "--max-positions", 4096, "--method", "tile",
            "--output-dir", "OUT/longer",
        ),
        "finetune": module(
            lambda out: subjects.finetune(folder / "glue" / "MRPC", model, out)
        ),
        "options": given("tupe-options"),
        "plot": given("tupe-plot", model, "--data", data, "--output-dir", "OUT/figures"),
        "predict": given(
            "tupe-predict", classifier, rows, "--text", "text", "--output-file",
            "OUT/predicted.csv", "--prefix", "new_", "--cpu",
        ),
        "prepare-glue": module(lambda out: subjects.prepare_glue(glue, data, out)),
        "prepare-pretrain": module(lambda out: subjects.prepare_pretrain(text, valid, out)),
        "prepare-task": given(
            "tupe-prepare-task", "--kind", "classification", "--train", rows, "--text", "text",
            "--label", "label", "--pretrain-dir", data, "--output-dir", "OUT", "--workers", 2,
        ),
        "score": given(
            "tupe-score", model, "--data", data, "--input", folder / "some.txt", "--output",
            "OUT/scores.tsv", "--cut", "--cpu",
        ),
        "fairseq-train": Command(
            lambda out: [*subjects.pretrain(data, out, 60, "--rel-pos"), "--num-workers", "2"],
            limit=2 * LIMIT,
            is_fairseqs=True,
        ),
    }  # fmt: skip
