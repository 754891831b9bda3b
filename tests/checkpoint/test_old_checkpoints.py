"""What commit 83f7af4 wrote can be read, and computes the same, by every way that reads it."""

import pytest
import torch

from helpers import old_checkpoints, training
from helpers.old_checkpoints import CLASSES, FINETUNED, PRETRAINED, TRANSLATORS, outputs
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.checkpoint.allowed_options import read_pretrained
from tupe_fairseq.inference.model import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return old_checkpoints.extract(tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="module")
def expected(folder):
    return torch.load(folder / "outputs.pt", weights_only=True)


@pytest.mark.parametrize("name", CLASSES)
def test_from_pretrained(name, folder, expected):
    found = outputs(name, CLASSES[name].from_pretrained(str(folder / name)))
    assert len(found) == len(expected[name]) > 1 - (name in TRANSLATORS)
    for x, y in zip(found, expected[name]):
        torch.testing.assert_close(x, y, rtol=0, atol=2e-5)  # scores of single precision


@pytest.mark.parametrize("name", [*PRETRAINED, *FINETUNED])
def test_our_commands(name, folder):
    """By torch alone, and as flags for another training."""
    path = str(folder / name / "model.pt")
    trained = load(path, str(folder / name))
    hub = TupeRobertaModel.from_pretrained(str(folder / name)).eval()
    tokens = torch.tensor([[0, 7, 8, 9, 2]])
    features = trained.encoder(trained.encoder.embed_tokens(tokens))
    torch.testing.assert_close(features, hub.extract_features(tokens))
    if name in FINETUNED:
        assert trained.head(features, tokens.ne(1)).isfinite().all()
        assert trained.head.out_proj.weight.equal(hub._head().out_proj.weight)
    else:
        positions = torch.tensor([[1, 3]])
        torch.testing.assert_close(
            trained.masked_logits(tokens, positions), hub.model(tokens)[0][:, [1, 3]]
        )
    assert len(read_pretrained(path).flags) > 8


@pytest.mark.parametrize("name", ["tupe-a", "tagging", "lm-tupe-r", "mt-tupe-r"])
def test_fairseq_train_goes_on(name, folder, tmp_path):
    """With a learning rate of 0 the weights stay."""
    path = folder / name / "model.pt"
    data = old_checkpoints.write_data(tmp_path, name)
    flags = [*old_checkpoints.flags_of(name), "--finetune-from-model", path, "--lr", 0]
    training.train(data, tmp_path / "out", *flags, "--max-update", 1, "--disable-validation")
    saved = training.weights(tmp_path / "out" / "checkpoint_last.pt")
    for key, x in training.weights(path).items():
        # what was not recorded then is recorded now
        assert saved[key].equal(x.to(saved[key])) or key.endswith("position_version"), key
