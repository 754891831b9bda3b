"""Where the commands of the pages run."""

import pytest
import torch

from helpers import authors
from helpers.cli import REPO, USER_DIR
from helpers.glue_files import write_glue
from helpers.vocabularies import write_gpt2, write_roberta


@pytest.fixture
def folder(text, tmp_path):
    """A clone with what the pages take for given: text, GLUE, reviews, others' checkpoints."""
    (tmp_path / "examples").symlink_to(REPO / "examples")
    (tmp_path / "tupe_fairseq").symlink_to(USER_DIR)  # two copies would not fit in a process
    for split in ("train", "valid"):
        lines = (text / f"{split}.txt").read_text().splitlines()
        documents = ("\n".join(lines[n : n + 5]) for n in range(0, len(lines), 5))
        (tmp_path / f"{split}.txt").write_text("\n\n".join(documents) + "\n")
    write_glue(tmp_path / "glue_data", ["CoLA", "SST-2", "STS-B"])
    rows = [f"Film {n} is {word}.,{word}" for n in range(10) for word in ("good", "bad")]
    (tmp_path / "reviews.csv").write_text("\n".join(["review,verdict", *rows]) + "\n")
    (tmp_path / "new.csv").write_text("review\nA fine film.\nDull.\n")
    write_roberta(tmp_path / "roberta-base")
    write_gpt2(tmp_path / "roberta.base")
    for name, place in {
        "theirs.pt": "roberta.base/model.pt", "theirs.txt": "roberta.base/dict.txt",
        "encoder.json": "encoder.json", "vocab.bpe": "vocab.bpe",
    }.items():  # fmt: skip
        (tmp_path / "roberta.base" / name).rename(tmp_path / place)
    state, _ = authors.their_checkpoint(max_positions=64)
    torch.save(state, tmp_path / "checkpoint_best.pt")
    (tmp_path / "dict.txt").write_text("\n".join(authors.WORDS) + "\n")
    (tmp_path / "bpe-code").write_text(authors.CODES)
    return tmp_path
