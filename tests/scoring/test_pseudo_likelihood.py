"""The scores equal a loop's, whatever is in the batches."""

import random

import pytest
import torch

from helpers.exporting import build, save
from helpers.glue_files import write_pretrain_dir
from helpers.scoring import naive
from tupe_fairseq.inference.masked_words import load_masked_words
from tupe_fairseq.position import CATALOGUE
from tupe_fairseq.scoring import pseudo_likelihood
from tupe_fairseq.scoring.pseudo_likelihood import PseudoLikelihood


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory):
    return write_pretrain_dir(tmp_path_factory.mktemp("scoring") / "data") / "dict.txt"


def sentences(num_symbols):
    """Tokens of several lengths; some sentences twice."""
    draw = random.Random(3)
    found = [
        [0, *(draw.randrange(4, num_symbols - 1) for _ in range(length)), 2]
        for length in (1, 3, 7, 3, 22, 7, 1)
    ]
    return [*found, found[2], found[4]]


@pytest.mark.parametrize(
    "options",
    [*({"position_encoding": name} for name in CATALOGUE), {"rel_pos": True},
     {"rel_pos": True, "position_encoding": "learned", "encoder_normalize_before": True},
     {"untie_weights_roberta": True, "activation_fn": "relu"}],
    ids=lambda options: " ".join(map(str, options.values())),
)  # fmt: skip
def test_scores_are_those_of_a_loop_over_the_training_model(options, dictionary, tmp_path):
    args, model = build(dictionary, **options)
    loaded = load_masked_words(str(save(tmp_path, args, model)), str(dictionary))
    model.eval().double()
    mask = loaded.symbols.index("<mask>")
    given = sentences(len(loaded.symbols))
    wanted = [naive(lambda t: model(t)[0], torch.tensor(tokens), mask) for tokens in given]
    # float32's rounding of a sum of 22 terms of about 5
    found = PseudoLikelihood(loaded.model, mask, batch_tokens=40).scores(given)
    assert found == pytest.approx(wanted, rel=0, abs=1e-4)
    # fairseq's LM head computes gelu in float32, whatever the model's dtype
    found = PseudoLikelihood(loaded.model.double(), mask, batch_tokens=40).scores(given)
    assert found == pytest.approx(wanted, rel=0, abs=5e-6)


@pytest.mark.parametrize("batch_tokens", [1, 17, 100, 10_000])
def test_batches_and_order_change_nothing(batch_tokens, dictionary, tmp_path, monkeypatch):
    loaded = load_masked_words(str(save(tmp_path, *build(dictionary))), str(dictionary))
    mask = loaded.symbols.index("<mask>")
    given = sentences(len(loaded.symbols))
    alone = [PseudoLikelihood(loaded.model, mask).scores([tokens])[0] for tokens in given]
    scorer = PseudoLikelihood(loaded.model, mask, batch_tokens=batch_tokens)
    # per prediction; a sentence here has 22 at most
    assert scorer.scores(given) == pytest.approx(alone, rel=0, abs=1e-5)
    assert scorer.scores(given[::-1]) == pytest.approx(alone[::-1], rel=0, abs=1e-5)
    # a few rows wait at a time, each with one sentence or more
    monkeypatch.setattr(pseudo_likelihood, "_WAITING", 12)
    rows = [("a", given[:3]), ("b", given[3:4]), ("c", []), ("d", given[4:])]
    names, scores = zip(*scorer.stream(iter(rows)))
    assert names == ("a", "b", "c", "d") and list(map(len, scores)) == [3, 1, 0, 5]
    assert sum(scores, []) == pytest.approx(alone, rel=0, abs=1e-5)


def test_unpad_changes_nothing(dictionary, tmp_path):
    args, model = build(dictionary, rel_pos=True)
    found = []
    for unpad in (False, True):
        path = save(tmp_path / str(unpad), {**args, "unpad": unpad}, model)
        loaded = load_masked_words(str(path), str(dictionary))
        mask = loaded.symbols.index("<mask>")
        found.append(PseudoLikelihood(loaded.model, mask).scores(sentences(len(loaded.symbols))))
    assert found[0] == found[1]


def test_batches_are_full_and_hold_one_length_and_no_sentence_twice():
    seen = []

    def model(tokens, positions):
        assert (tokens == 9).sum(1).eq(1).all()
        assert tokens.gather(1, positions).eq(9).all()
        assert tokens[:, 0].eq(0).all() and tokens[:, -1].eq(2).all()
        seen.append(tuple(tokens.shape))
        return torch.zeros(*positions.shape, 10)

    steps = []
    five, three = [0, 4, 5, 6, 2], [0, 4, 2]
    scorer = PseudoLikelihood(model, 9, batch_tokens=20, advance=steps.append)
    scores = scorer.scores([five, three, five, [0, 5, 5, 5, 2], [0, 2], [0, 6, 6, 6, 2]])
    # nine copies of five tokens, of which four make a batch
    assert seen == [(4, 5), (4, 5), (1, 5), (1, 3)]
    uniform = -torch.tensor(10.0).double().log().item()
    assert scores == pytest.approx([3 * uniform, uniform, 3 * uniform, 3 * uniform, 0, 3 * uniform])
    assert sum(steps) == 13  # also those of the sentence that comes again


def test_no_sentence_is_no_score():
    assert PseudoLikelihood(None, 9).scores([]) == []
    assert list(PseudoLikelihood(None, 9).stream([])) == []
