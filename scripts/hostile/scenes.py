"""Folders of sound files, each with all that a reader needs; inputs are changes in copies of them.

The folders are made by the package's own commands and by what its tests have for it.
"""

import bz2
import gzip
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from readers import CHECKPOINT, READERS, TRAINING, Reader

from helpers import glue_data, glue_files, model_folders, own_files
from helpers import vocabularies as foreign
from helpers.crafted import whole_state
from helpers.predicting import write_fine_tuned
from helpers.running import call_program

_CONFIG = Path(__file__).parents[2] / "examples/pretraining/config/tupe_tiny.yaml"
_STUDY = """data: data
output-dir: out
schemes:
  - learned
  - tupe --rel-pos
updates: 8
lr: 1e-3
seeds: [1, 2]
train-flags: --dropout 0
cpu: true
threads: 1
dry-run: true
"""
_SENTENCES = [glue_files.sentence(7 * number) for number in range(40)]


def write_scenes(folder: Path) -> None:
    """Write FOLDER/SCENE for every scene."""
    torch.manual_seed(1)
    for name, write in SCENES.items():
        (folder / name).mkdir(parents=True)
        write(folder / name)


def _pretrained(folder: Path) -> None:
    """A checkpoint of our own, its data folder with both splits, and texts."""
    data = glue_files.write_pretrain_dir(folder / "data")
    _write_splits(data)
    assert not _inside(folder, TRAINING)
    state = torch.load(folder / "saved" / "checkpoint_last.pt")
    # what the clock has written, so that the same bytes are changed in every run
    for name in ("metrics", "previous_training_time"):
        state["extra_state"].pop(name, None)
    torch.save(state, folder / "model.pt")
    shutil.rmtree(folder / "saved")
    (folder / "in.txt").write_text("\n".join(_SENTENCES[:6]) + "\n")
    shutil.copy(_CONFIG, folder / "tiny.yaml")


def _write_splits(data: Path) -> None:
    words = (data / "dict.txt").read_text().count("\n")
    rows = [[4 + (7 * row + place) % words for place in range(9)] + [2] for row in range(12)]
    for split in ("train", "valid"):
        glue_data.write_bin(data / split, rows)


def _fine_tuned(folder: Path) -> None:
    """A classifier with what lies beside it, and rows as CSV and TSV."""
    written = write_fine_tuned(folder / "model", "classification", 1)
    assert written.name == CHECKPOINT
    shutil.rmtree(folder / "data of model")
    rows = [["number", "text"], *([str(n), text] for n, text in enumerate(_SENTENCES[:8]))]
    own_files.write_csv(folder / "in.csv", rows)
    (folder / "in.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))


def _authors(folder: Path) -> None:
    foreign.write_authors(folder)


def _stock(folder: Path) -> None:
    foreign.write_gpt2(folder)


def _folder(folder: Path) -> None:
    """A model folder of the transformers library, with a head."""
    head = model_folders.HEAD
    model = model_folders.with_head(whole_state()["model"])
    model_folders.write_folder(folder / "folder", model, head)


def _official(folder: Path) -> None:
    glue_files.write_pretrain_dir(folder / "data")
    glue_files.write_glue(folder / "glue", ["CoLA", "STS-B"])


def _rows(folder: Path) -> None:
    """Labelled texts in each format."""
    import pyarrow
    import pyarrow.parquet

    glue_files.write_pretrain_dir(folder / "data")
    rows = [{"text": text, "label": "yes" if n % 3 else "no"} for n, text in enumerate(_SENTENCES)]
    own_files.write_csv(
        folder / "in.csv", [["text", "label"], *([row["text"], row["label"]] for row in rows)]
    )
    lines = [f"{row['text']}\t{number % 9 / 2}\n" for number, row in enumerate(rows)]
    (folder / "in.tsv").write_text("text\tlabel\n" + "".join(lines))
    lists = [{"text": row["text"], "label": ["a", "b"][: n % 3]} for n, row in enumerate(rows)]
    own_files.write_jsonl(folder / "in.jsonl", lists)
    own_files.write_conll(folder / "in.conll", [own_files.tagged(n) for n in range(20)])
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), str(folder / "in.parquet"))


def _text(folder: Path) -> None:
    glue_files.write_pretrain_dir(folder / "data")
    text = "".join(f"{one}\n{other}\n\n" for one, other in zip(_SENTENCES, _SENTENCES[1:]))
    (folder / "in.txt").write_text(text)
    for ending, module in (("gz", gzip), ("xz", lzma), ("bz2", bz2)):
        (folder / f"in.txt.{ending}").write_bytes(module.compress(text.encode()))
    own_files.write_jsonl(folder / "in.jsonl", [{"text": text} for text in _SENTENCES])


def _prepared(folder: Path) -> None:
    _text(folder)
    assert not _inside(folder, READERS["prepare-pretrain again"])


def _finished(folder: Path) -> None:
    """A fine-tuning with one finished run."""
    glue_data.write_data(folder / "RTE", "RTE")
    glue_data.write_checkpoint(folder / "model.pt")
    assert not _inside(folder, READERS["finetune again"])


def _compared(folder: Path) -> None:
    """A comparison whose runs are made up, because only their results are read again."""
    from tupe_fairseq.compare import concurrent_runs
    from tupe_fairseq.files.atomic import write_json

    data = glue_files.write_pretrain_dir(folder / "data")
    _write_splits(data)
    (folder / "study.yaml").write_text(_STUDY)

    def made(comparison, run, **_):
        losses = [8.5, 8.0 - 0.5 * run.scheme.label.count("tupe")]
        curve = [
            {"updates": 4 * n, "loss": loss, "seconds": 2.0 * n} for n, loss in enumerate(losses, 1)
        ]
        result = {
            "arch": run.arch, "scheme": run.scheme.label, "seed": run.seed, "diverged": None,
            "final_loss": losses[-1], "best_loss": min(losses), "best_updates": 8, "seconds": 4.0,
            "words_per_second": 50.0, "peak_memory_mib": 90.0, "side_by_side": 1,
            "machine": "a machine", "parameters": 1000, "position_parameters": 10, "curve": curve,
        }  # fmt: skip
        # another thread reads those of the runs before
        write_json(comparison.path(run, "result.json"), result)
        return result

    real, concurrent_runs.compare_one = concurrent_runs.compare_one, made
    try:
        assert not _inside(folder, READERS["compare again"])
    finally:
        concurrent_runs.compare_one = real


def _inside(folder: Path, one: Reader) -> int:
    """A reader's own command in its folder: the exit code."""
    here = os.getcwd()
    os.chdir(folder)
    try:
        code, text = call_program(lambda words: one.call(), one.arguments, is_silent=False)
    finally:
        os.chdir(here)
    if code not in (0, 130):
        raise RuntimeError(f"{one.program}: {text}")
    return code


SCENES: dict[str, Callable[[Path], None]] = {
    "pretrained": _pretrained,
    "fine-tuned": _fine_tuned,
    "authors": _authors,
    "stock": _stock,
    "folder": _folder,
    "official": _official,
    "rows": _rows,
    "text": _text,
    "prepared": _prepared,
    "finished": _finished,
    "compared": _compared,
}
