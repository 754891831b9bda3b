"""Checkpoints of commit 83f7af4 can be read in every way, and compute what they computed then.

The archive has a model of every family and kind of head after one update, with weights in half
precision and no optimizer state. tests/helpers/old_checkpoints.py of commit 822c43e made it.
"""

import tarfile
from pathlib import Path

import pytest
import torch

from helpers import training
from helpers.glue_data import own_task, random_rows, write_bin, write_task
from helpers.running import USER_DIR
from helpers.training import MAX_POSITIONS, MODEL, OPTIMIZATION, PRETRAINING, SIZE, WORDS
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.checkpoint.model import Model
from tupe_fairseq.data.tokenizer import find_dictionary
from tupe_fairseq.models.tupe_transformer import TupeTransformer
from tupe_fairseq.models.tupe_transformer_lm import TupeLanguageModel

LINES = [f"{word} 1" for word in WORDS]
PRETRAINED = (
    "tupe-a tupe-r tupe-r-tied learned sinusoidal none transformer-xl enformer rope alibi shaw "
    "disentangled"
).split()
FINETUNED = "classification mean-pooling pairs regression multilabel fairseqs-own tagging".split()
LANGUAGE_MODELS = ["lm-tupe-r", "lm-rope", "lm-disentangled"]
TRANSLATORS = ["mt-tupe-r", "mt-shaw-alibi"]
CLASSES = {
    **dict.fromkeys([*PRETRAINED, *FINETUNED], TupeRobertaModel),
    **dict.fromkeys(LANGUAGE_MODELS, TupeLanguageModel),
    **dict.fromkeys(TRANSLATORS, TupeTransformer),
}
DECODER = [
    "--user-dir", USER_DIR, *OPTIMIZATION, "--decoder-layers", 2, "--decoder-embed-dim", 12,
    "--decoder-attention-heads", 3, "--decoder-ffn-embed-dim", 20, "--rel-pos", "--batch-size", 4,
]  # fmt: skip
#: flags of one training of each task
FLAGS = {
    "tupe-a": [*MODEL, *PRETRAINING, "--arch", "tupe_roberta_base"],
    "tagging": [*MODEL, *OPTIMIZATION, "--max-positions", MAX_POSITIONS, "--batch-size", 8,
                "--task", "token_tagging", "--criterion", "token_tagging"],
    "lm-tupe-r": [*DECODER, "--decoder-input-dim", 12, "--decoder-output-dim", 12, "--task",
                  "tupe_language_modeling", "--arch", "tupe_transformer_lm_tiny",
                  "--tokens-per-sample", MAX_POSITIONS],
    "mt-tupe-r": [*DECODER, *SIZE, "--task", "tupe_translation", "--arch", "tupe_transformer_tiny",
                  "--source-lang", "en", "--target-lang", "de", "--share-all-embeddings",
                  "--max-source-positions", 20, "--max-target-positions", 18, "--cross-positions"],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """NAME/model.pt, NAME's vocabulary, and outputs.pt."""
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(Path(__file__).parent / "written_at_83f7af4.tar.xz") as archive:
        archive.extractall(folder)
    return folder


@torch.no_grad()
def outputs(name, hub):
    """What a model computes for fixed tokens: a list of tensors."""
    tokens = torch.tensor([[0, 7, 8, 9, 5, 11, 2], [0, 6, 5, 2, 1, 1, 1]])
    hub.eval()
    if name in TRANSLATORS:
        source = torch.tensor([[7, 8, 9, 5, 2], [1, 1, 6, 5, 2]])
        return [hub.models[0](source, torch.tensor([5, 3]), tokens)[0]]
    if name in LANGUAGE_MODELS:
        decoder = hub.models[0].decoder
        features = decoder(tokens[:1], features_only=True)[0]
        if decoder.adaptive_softmax is not None:
            return [features, decoder.adaptive_softmax.get_log_prob(features, None)]
        return [features, decoder.output_layer(features)]
    features = hub.extract_features(tokens)
    is_token = tokens.ne(1)
    found = [features[is_token]]
    if name in PRETRAINED:
        found.append(hub.model(tokens[:, :4])[0][:, 1:3])
    for head in hub.model.classification_heads.values():
        scores = head(features, is_token)
        found.append(scores[is_token] if name == "tagging" else scores)
    return found


@pytest.mark.parametrize("name", CLASSES)
def test_from_pretrained(name, folder):
    expected = torch.load(folder / "outputs.pt", weights_only=True)[name]
    found = outputs(name, CLASSES[name].from_pretrained(str(folder / name)))
    assert len(found) == len(expected) > 1 - (name in TRANSLATORS)
    for x, y in zip(found, expected):
        torch.testing.assert_close(x, y, rtol=0, atol=2e-5)  # scores of single precision


@pytest.mark.parametrize("name", [*PRETRAINED, *FINETUNED])
def test_our_commands(name, folder):
    """They read the model with torch alone, and as flags for further training."""
    path = str(folder / name / "model.pt")
    trained = Model.read(path, find_dictionary([str(folder / name)]))
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
    assert len(trained.flags()) > 8


def write_data(folder, name):
    if name == "tagging":
        task = own_task(name)
        rows = random_rows(task, len(WORDS), {"train": 16, "valid": 4}, 5)
        return write_task(folder / "data", task, rows, LINES, MAX_POSITIONS)
    if name not in TRANSLATORS:
        return training.write_text_data(folder / "data")
    for language in ("en", "de"):
        rows = [[*(4 + (7 * row + n) % 30 for n in range(3 + row % 4)), 2] for row in range(16)]
        for split in ("train", "valid"):
            write_bin(folder / "data" / f"{split}.en-de.{language}.bin", rows)
        (folder / "data" / f"dict.{language}.txt").write_text("\n".join([*LINES, ""]))
    return folder / "data"


@pytest.mark.parametrize("name", FLAGS)
def test_fairseq_train_goes_on(name, folder, tmp_path):
    """With a learning rate of 0 the weights stay."""
    path, flags = folder / name / "model.pt", [*FLAGS[name], "--lr", 0, "--max-update", 1]
    flags += ["--finetune-from-model", path, "--disable-validation"]
    training.train(write_data(tmp_path, name), tmp_path / "out", *flags)
    saved = training.weights(tmp_path / "out" / "checkpoint_last.pt")
    for key, x in training.weights(path).items():
        # what was not recorded then is recorded now
        assert saved[key].equal(x.to(saved[key])) or key.endswith("position_version"), key
