"""The scores equal a loop's, whatever is in the batches."""

import random

import pytest
import torch

from helpers.exporting import build, save
from helpers.glue_files import write_pretrain_dir
from helpers.scoring import naive
from tupe_fairseq.inference.model import load
from tupe_fairseq.position import CATALOGUE
from tupe_fairseq.scoring.pseudo_likelihood import pseudo_likelihoods


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
    loaded = load(str(save(tmp_path, args, model)), str(dictionary.parent))
    model.eval().double()
    mask = loaded.symbols.index("<mask>")
    given = sentences(len(loaded.symbols))
    wanted = [naive(lambda t: model(t)[0], torch.tensor(tokens), mask) for tokens in given]
    # float32's rounding of a sum of 22 terms of about 5
    found = pseudo_likelihoods(loaded.masked_logits, given, mask, batch_tokens=40)
    assert found == pytest.approx(wanted, rel=0, abs=1e-4)
    # fairseq's LM head computes gelu in float32, whatever the model's dtype
    for module in (loaded.encoder, loaded.lm_head):
        module.double()
    found = pseudo_likelihoods(loaded.masked_logits, given, mask, batch_tokens=40)
    assert found == pytest.approx(wanted, rel=0, abs=5e-6)


@pytest.mark.parametrize("batch_tokens", [1, 17, 100, 10_000])
def test_batches_and_order_change_nothing(batch_tokens, dictionary, tmp_path):
    loaded = load(str(save(tmp_path, *build(dictionary))), str(dictionary.parent))
    mask = loaded.symbols.index("<mask>")
    given = sentences(len(loaded.symbols))

    def scores(some, **options):
        return pseudo_likelihoods(loaded.masked_logits, some, mask, **options)

    alone = [scores([tokens])[0] for tokens in given]
    # per prediction; a sentence here has 22 at most
    found = scores(given, batch_tokens=batch_tokens)
    assert found == pytest.approx(alone, rel=0, abs=1e-5)
    found = scores(given[::-1], batch_tokens=batch_tokens)
    assert found == pytest.approx(alone[::-1], rel=0, abs=1e-5)


def test_batches_are_full_and_hold_one_length():
    seen, steps = [], []

    def model(tokens, positions):
        assert (tokens == 9).sum(1).eq(1).all()
        assert tokens.gather(1, positions).eq(9).all()
        assert tokens[:, 0].eq(0).all() and tokens[:, -1].eq(2).all()
        seen.append(tuple(tokens.shape))
        return torch.zeros(*positions.shape, 10)

    five, three = [0, 4, 5, 6, 2], [0, 4, 2]
    given = [five, three, [0, 5, 5, 5, 2], [0, 2], [0, 6, 6, 6, 2]]
    scores = pseudo_likelihoods(model, given, 9, batch_tokens=20, advance=steps.append)
    # nine copies of five tokens, of which four make a batch
    assert seen == [(4, 5), (4, 5), (1, 5), (1, 3)] and sum(steps) == 10
    uniform = -torch.tensor(10.0).double().log().item()
    assert scores == pytest.approx([3 * uniform, uniform, 3 * uniform, 0, 3 * uniform])
    assert pseudo_likelihoods(None, [], 9) == []
