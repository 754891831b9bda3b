"""hub.predict_texts gives what tupe-predict writes, and says what it needs."""

import json

import pytest
import torch

from helpers.exporting import MEAN_POOLING
from helpers.predicting import HEAD, predict, write_fine_tuned
from tupe_fairseq.models.tupe_roberta import TupeRobertaModel

TEXTS = ["The cat likes the house.", "", "An old tree sees nobody. " * 9, "No fish."]


def hub_of(checkpoint, **options):
    return TupeRobertaModel.from_pretrained(str(checkpoint.parent), checkpoint.name, **options)


@pytest.mark.parametrize(
    "kind, texts, options",
    [
        ("classification", 2, {}),
        ("regression", 1, MEAN_POOLING),
    ],
)
def test_the_same_as_the_command(kind, texts, options, tmp_path):
    torch.manual_seed(1)
    checkpoint = write_fine_tuned(tmp_path / "model", kind, texts, rel_pos=True, **options)
    rows = [TEXTS[row : row + texts] for row in range(len(TEXTS) + 1 - texts)]
    names = ["text", "text2"][:texts]
    lines = [json.dumps(dict(zip(names, row))) + "\n" for row in rows]
    (tmp_path / "in.jsonl").write_text("".join(lines))
    flags = [word for name in names for word in (f"--{name}", name)]
    words = [checkpoint, tmp_path / "in.jsonl", "--output-file", tmp_path / "out.jsonl"]
    code, log = predict(*words, *flags)
    assert code == 0, log
    written = [json.loads(line) for line in open(tmp_path / "out.jsonl")]
    hub = hub_of(checkpoint)
    with pytest.raises(ValueError, match="training mode"):
        hub.train().predict_texts(["a"])
    found = hub.eval().predict_texts(rows if texts == 2 else [text for (text,) in rows])
    assert len(found) == len(written) and set(found[0]) == set(written[0]) - set(names)
    for one, row in zip(found, written):
        for name, value in one.items():
            # the batches are others
            is_text = name == "label"
            assert value == (row[name] if is_text else pytest.approx(row[name], abs=1e-5))
    # padding changes nothing
    tokens = torch.tensor([[0, 7, 8, 9, 2], [0, 5, 2, 1, 1]])
    together = hub.predict(HEAD, tokens, return_logits=True)
    alone = torch.cat(
        [hub.predict(HEAD, one, return_logits=True) for one in (tokens[0], tokens[1, :3])]
    )
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)
    assert hub.predict(HEAD, tokens).equal(together.log_softmax(-1))
    with pytest.raises(ValueError, match=f"the model takes {texts} texts at a time"):
        hub.predict_texts([["a"] * (texts + 1)])


def test_models_of_which_it_is_not_known_what_they_predict(tmp_path):
    checkpoint = write_fine_tuned(tmp_path / "model")
    report = checkpoint.parent / "report.json"
    content = json.loads(report.read_text())
    hub = hub_of(checkpoint).eval()
    content["description"]["labels"].pop()
    report.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="3 outputs, but the task mine beside it 2 labels"):
        hub.predict_texts(["a"])
    report.unlink()
    with pytest.raises(FileNotFoundError, match="which says what labels are predicted"):
        hub.predict_texts(["a"])
    hub.model.classification_heads.clear()
    with pytest.raises(ValueError, match="the model has 0 classification heads"):
        hub.predict_texts(["a"])
