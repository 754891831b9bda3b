"""fairseq's hub interface on a trained checkpoint, with SentencePiece next to it."""

import random
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from fairseq.models.roberta import RobertaModel
from tupe_fairseq.modules.shared_bias import SIZE

from helpers.running import USER_DIR
from helpers.training import pretrain
from tupe_fairseq import TupeRobertaModel


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """A folder as a user would pass it on: checkpoint, dict.txt and SentencePiece model."""
    folder = tmp_path_factory.mktemp("hub")
    pretrain(data, folder, "--rel-pos", "--max-update", 5, "--encoder-normalize-before")
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        shutil.copy(data / name, folder)
    return folder


@pytest.fixture
def hub(folder):
    hub = RobertaModel.from_pretrained(
        str(folder), "checkpoint_last.pt", user_dir=USER_DIR, bpe="sentencepiece"
    )
    return hub.eval()


SENTENCE = "The value of the expression is an object."


def test_encode_and_decode(hub):
    tokens = hub.encode(SENTENCE)
    assert tokens[0] == 0 and tokens[-1] == 2
    assert hub.decode(tokens) == SENTENCE


def test_fill_mask(hub):
    fills = hub.fill_mask("The <mask> of the expression is an object.", topk=5)
    assert 1 <= len(fills) <= 5  # fairseq leaves out special symbols among the best
    for sentence, score, filled in fills:
        assert "<mask>" not in sentence and 0 < score < 1 and filled.strip() in sentence


def test_extract_features(hub):
    tokens = hub.encode(SENTENCE)
    features = hub.extract_features(tokens)
    assert features.shape == (1, len(tokens), 32)
    states = hub.extract_features(tokens, return_all_hiddens=True)
    assert len(states) == 3 and all(state.shape == features.shape for state in states)
    # pre-LN: the last state is taken before the final LayerNorm, as fairseq's own are
    last = hub.model.encoder.sentence_encoder.layer_norm(states[-1])
    torch.testing.assert_close(last, features, rtol=0, atol=1e-6)


def test_heads(hub):
    hub.register_classification_head("topics", num_classes=5)
    log_probs = hub.predict("topics", hub.encode(SENTENCE))
    assert log_probs.shape == (1, 5)
    torch.testing.assert_close(log_probs.exp().sum(), torch.tensor(1.0))


def test_our_own_class_finds_sentencepiece_by_itself(folder, tmp_path, hub):
    ours = TupeRobertaModel.from_pretrained(str(folder), "checkpoint_last.pt").eval()
    assert ours.encode(SENTENCE).equal(hub.encode(SENTENCE))
    for name in ("dict.txt", "checkpoint_last.pt"):
        shutil.copy(folder / name, tmp_path)
    assert TupeRobertaModel.from_pretrained(str(tmp_path), "checkpoint_last.pt").bpe is None


def test_too_long_a_sentence(hub):
    with pytest.raises(ValueError, match="65 > 64"):
        hub.extract_features(torch.full((1, 65), 5))


def test_several_threads_call_one_model(hub):
    """As a server does for a long time; scripts/long_lived calls ten thousand times."""
    shared = hub.model.encoder.sentence_encoder.shared_bias
    texts = [torch.cat([torch.tensor([0]), torch.arange(5, 5 + n)]) for n in range(63)]
    with torch.no_grad():
        expected = [hub.extract_features(text) for text in texts]

    def compute(seed):
        order = random.Random(seed).choices(range(len(texts)), k=100)
        with torch.no_grad():  # of this thread
            equal = [hub.extract_features(texts[n]).equal(expected[n]) for n in order]
        assert len(shared._kept.biases) <= SIZE
        return all(equal)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(compute, range(4))) == [True] * 4


def test_left_padding_is_refused(hub):
    with pytest.raises(ValueError, match="begins with padding.*pad on the right"):
        hub.model(torch.tensor([[0, 5, 6, 2], [1, 0, 5, 2]]))


def test_nothing_but_padding_after_s_is_finite(hub):
    tokens = torch.tensor([[0, 5, 6, 2], [0, 1, 1, 1], [1, 1, 1, 1]])
    hub.train()
    features, _ = hub.model(tokens, features_only=True)
    features[:2].sum().backward()
    assert features.isfinite().all()
    grads = [p.grad for p in hub.model.parameters() if p.grad is not None]
    assert grads and all(grad.isfinite().all() for grad in grads)
