"""tupe-encode: vectors of pre-trained and fine-tuned models, and what it refuses."""

import os
import runpy

import numpy as np
import pytest
import torch

from helpers.exporting import MAX_POSITIONS, write_model
from helpers.predicting import encode, write_fine_tuned
from helpers.running import REPO
from tupe_fairseq.models.tupe_roberta import TupeRobertaModel

TEXTS = ["The cat likes the house.", "A dog.", "", "An old tree sees nobody. " * 9, "No fish."]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A fine-tuned model, and pre-trained ones with what belongs beside them elsewhere."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(1)
    found = {"fine-tuned": (write_fine_tuned(folder / "fine", rel_pos=True), [])}
    data = folder / "data of fine"
    for name, options in (("post", {}), ("pre", {"encoder_normalize_before": True})):
        found[name] = (write_model(folder / name, data, **options), ["--data", data])
    (folder / "in.tsv").write_text("text\tb\n" + "".join(f"{text}\tx\n" for text in TEXTS))
    return {**found, "input": folder / "in.tsv"}


def expected(checkpoint, flags, layer, pooling):
    """By fairseq's own path, one text at a time."""
    data = flags[1] if flags else checkpoint.parent
    hub = TupeRobertaModel.from_pretrained(
        str(checkpoint.parent), checkpoint.name, str(data), task="masked_lm", bpe="sentencepiece",
        sentencepiece_model=f"{data}/sentencepiece.bpe.model", tokens_per_sample=MAX_POSITIONS,
    ).eval()  # fmt: skip
    found = []
    for text in TEXTS:
        ids = hub.encode(text.strip())
        ids = torch.cat([ids[: MAX_POSITIONS - 1], ids[-1:]]) if len(ids) > MAX_POSITIONS else ids
        with torch.no_grad():
            last = hub.extract_features(ids)[0]
            hiddens = hub.extract_features(ids, return_all_hiddens=True)
        hidden = last if layer is None else hiddens[layer][0]
        found.append(hidden.mean(dim=0) if pooling == "mean" else hidden[0])
    return torch.stack(found).numpy()


@pytest.mark.parametrize("name, layer, pooling", [
    ("fine-tuned", None, "mean"), ("fine-tuned", 1, "cls"), ("post", 2, "cls"), ("post", 0, "mean"),
    ("pre", None, "mean"), ("pre", 1, "mean"),
])  # fmt: skip
def test_vectors_are_those_of_fairseqs_own_model(name, layer, pooling, models, tmp_path):
    checkpoint, flags = models[name]
    words = [checkpoint, models["input"], *flags, "--pooling", pooling]
    words += [] if layer is None else ["--layer", layer]
    code, log = encode(*words, "--output-file", tmp_path / "plain.npy")
    assert code == 0 and "longer than the model, truncated: 1 rows" in log
    found = np.load(tmp_path / "plain.npy")
    assert found.dtype == np.float32 and found.shape == (len(TEXTS), 16)
    wanted = expected(checkpoint, flags, layer, pooling)
    # rounding of float32
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    for other, *more in (("one.npy", "--batch-tokens", 1),):
        assert encode(*words, "--output-file", tmp_path / other, *more)[0] == 0
        np.testing.assert_allclose(np.load(tmp_path / other), wanted, rtol=0, atol=1e-5)


def test_the_nearest_texts(models, tmp_path, capsys):
    """examples/tasks/search.py finds each text itself first, and what is like it next."""
    texts = ["The cat likes the house.", "A dog sees nobody.", "No fish.", "The cat likes a house."]
    for name, rows in (("texts", texts), ("queries", texts[:2])):
        (tmp_path / f"{name}.tsv").write_text("\n".join(["text", *rows, ""]))
        words = [models["fine-tuned"][0], tmp_path / f"{name}.tsv"]
        assert encode(*words, "--output-file", tmp_path / f"{name}.npy")[0] == 0
    search = runpy.run_path(str(REPO / "examples" / "tasks" / "search.py"))
    files = [f"{name}.{ending}" for name in ("texts", "queries") for ending in ("tsv", "npy")]
    search["main"]([str(tmp_path / name) for name in files] + ["--nearest", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0], lines[3]] == texts[:2]
    assert lines[1] == f"  1.000  {texts[0]}" and lines[4] == f"  1.000  {texts[1]}"
    assert lines[2].endswith(texts[3]) and len(lines) == 6
    with pytest.raises(SystemExit, match="queries.npy has 2 vectors for 4 texts"):
        search["main"]([str(tmp_path / name) for name in (*files[:2], files[0], files[3])])


def test_pairs(models, tmp_path):
    """Two columns make one sequence, other than that of either."""
    checkpoint, _ = models["fine-tuned"]
    (tmp_path / "in.csv").write_text("a,b\nA dog.,No fish.\n")
    vectors = []
    for flags in (["--text", "a", "--text2", "b"], ["--text", "a"], ["--text", "b"]):
        code, log = encode(
            checkpoint, tmp_path / "in.csv", "--output-file", tmp_path / "o.npy", *flags
        )
        assert code == 0, log
        vectors.append(np.load(tmp_path / "o.npy"))
    assert abs(vectors[0] - vectors[1]).max() > 1e-3 and abs(vectors[0] - vectors[2]).max() > 1e-3


BAD = {
    "--layer 3: the model has 2": ["--layer", "3"],
    "x.pt should end in .npy": ["--output-file", "OUT/x.pt"],
    "has no column 'c' (--text2)": ["--text", "text", "--text2", "c"],
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message, models, tmp_path):
    flags = [flag.replace("OUT", str(tmp_path)) for flag in BAD[message]]
    checkpoint, _ = models["fine-tuned"]
    words = [checkpoint, models["input"], "--output-file", tmp_path / "out.npy"]
    code, log = encode(*words, *flags)
    assert code == 2 and message in log.splitlines()[-1]
    assert os.listdir(tmp_path) == []
