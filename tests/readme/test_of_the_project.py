"""Every command and example of README.md runs, one after the other, as a reader would."""

import torch

from helpers import authors
from helpers.readmes import ELSEWHERE, blocks, execute
from helpers.running import ENV
from helpers.vocabularies import write_gpt2


def test_readme(folder, monkeypatch):
    monkeypatch.setitem(ENV, "HF_HOME", str(folder / "hf"))
    state, _ = authors.their_checkpoint(max_positions=64)
    torch.save(state, folder / "checkpoint_best.pt")
    (folder / "dict.txt").write_text("\n".join(authors.WORDS) + "\n")
    (folder / "bpe-code").write_text(authors.CODES)
    write_gpt2(folder / "roberta.base")
    for name, place in {
        "theirs.pt": "roberta.base/model.pt", "theirs.txt": "roberta.base/dict.txt",
        "encoder.json": "encoder.json", "vocab.bpe": "vocab.bpe",
    }.items():  # fmt: skip
        (folder / "roberta.base" / name).rename(folder / place)
    outputs = []
    for language, code in blocks("README.md"):
        if code.startswith(ELSEWHERE):
            continue
        outputs.append(execute(language, code, folder))
    assert (folder / "runs" / "submission" / "CoLA.tsv").exists()
    assert (folder / "back" / "model.pt").exists()
    assert (folder / "sst2" / "checkpoint_best.pt").exists()
    assert (folder / "tupe-runs" / "submission" / "CoLA.tsv").exists()
    assert (folder / "roberta-converted" / "model.pt").exists()
    assert "torch.Size([8, 100, 128])\ntorch.Size([2, 100, 100])" in outputs[-1]
    assert (folder / "tupe-from-roberta" / "model.pt").exists()
    assert (folder / "scores.tsv").exists() and (folder / "agreement" / "results.md").exists()
    assert (folder / "longer" / "model.pt").exists() and (
        folder / "by-length" / "results.md"
    ).exists()
    assert len(outputs) == 17
