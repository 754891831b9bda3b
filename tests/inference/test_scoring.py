"""Scores equal a loop's over the training model, whatever is in the batches; minimal pairs."""

import math
import random

import pytest
import torch

from helpers.exporting import MAX_POSITIONS, build, save
from helpers.glue_files import write_pretrain_dir
from helpers.scoring import naive, write_pairs
from tupe_fairseq.inference.model import load
from tupe_fairseq.position import CATALOGUE
from tupe_fairseq.scoring.minimal_pairs import PairAccuracy, accuracy_table, pair_files, read_pairs
from tupe_fairseq.scoring.pseudo_likelihood import (
    MASKED_SHARE,
    draw_masked,
    loss_at_length,
    pseudo_likelihoods,
)


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory):
    return write_pretrain_dir(tmp_path_factory.mktemp("scoring") / "data") / "dict.txt"


def load_saved(folder, args, model, dictionary):
    loaded = load(str(save(folder, args, model)), str(dictionary.parent))
    return loaded, loaded.symbols.index("<mask>")


def sentences(num_symbols, lengths):
    draw = random.Random(3)
    return [[0, *draw.choices(range(4, num_symbols - 1), k=length), 2] for length in lengths]


@pytest.mark.parametrize(
    "options",
    [*({"position_encoding": name} for name in CATALOGUE),
     {"rel_pos": True, "position_encoding": "learned", "encoder_normalize_before": True},
     {"untie_weights_roberta": True, "activation_fn": "relu"}],
    ids=lambda options: " ".join(map(str, options.values())),
)  # fmt: skip
def test_scores_are_those_of_a_loop_over_the_training_model(options, dictionary, tmp_path):
    args, model = build(dictionary, **options)
    loaded, mask = load_saved(tmp_path, args, model, dictionary)
    model.eval().double()
    given = sentences(len(loaded.symbols), (1, 3, 7, 3, 22, 7, 1))
    given += [given[2], given[4]]
    wanted = [naive(lambda t: model(t)[0], torch.tensor(tokens), mask) for tokens in given]
    for batch_tokens in (1, 40, 10_000):
        found = pseudo_likelihoods(loaded.masked_logits, given, mask, batch_tokens=batch_tokens)
        # float32's rounding of a sum of 22 terms of about 5
        assert found == pytest.approx(wanted, rel=0, abs=1e-4)
    # fairseq's LM head computes gelu in float32, whatever the model's dtype
    for module in (loaded.encoder, loaded.lm_head):
        module.double()
    found = pseudo_likelihoods(loaded.masked_logits, given[::-1], mask, batch_tokens=40)
    assert found == pytest.approx(wanted[::-1], rel=0, abs=5e-6)


# ---- The loss at a length


@pytest.mark.parametrize("options", [{"rel_pos": True}, {"position_encoding": "rope"}])
def test_losses_are_those_of_a_loop(options, dictionary, tmp_path):
    args, model = build(dictionary, **options)
    loaded, mask = load_saved(tmp_path, args, model.eval(), dictionary)
    given = sentences(len(loaded.symbols), (1, 30, 7, 3, 41, 9, 22))
    drawn = draw_masked(given)
    text, chosen = (one.tolist() for one in drawn)
    assert text == [token for line in given for token in line[1:]]
    for length in (5, 8, MAX_POSITIONS):
        wanted = []  # position and loss of every masked token, sample by sample
        for start in range(0, len(text), length - 1):
            sample = torch.tensor([0, *text[start : start + length - 1]])
            places = [1 + n for n, one in enumerate(chosen[start : start + length - 1]) if one]
            masked = sample.clone()
            masked[places] = mask
            with torch.no_grad():
                logs = model(masked[None])[0][0].log_softmax(-1)
            wanted += [(place, -logs[place, sample[place]].item()) for place in places]
        for batch_tokens in (1, 3 * length, 10_000):
            found = loss_at_length(loaded.masked_logits, drawn, mask, length, 5, batch_tokens)
            assert found["length"] == length and found["pieces"] == sum(chosen) == len(wanted)
            mean = sum(loss for _, loss in wanted) / len(wanted)
            assert found["loss"] == pytest.approx(mean, rel=1e-5)
            assert found["by_position"][-1]["to"] == length
            for one in found["by_position"]:
                inside = [loss for place, loss in wanted if one["from"] <= place < one["to"]]
                assert one["pieces"] == len(inside)
                mean = sum(inside) / len(inside) if inside else None
                assert one["loss"] == pytest.approx(mean, rel=1e-5)


def test_the_same_tokens_are_drawn_each_time_and_no_end_of_a_line():
    given = sentences(50, (1, 30, 7, 3, 41, 9, 22)) * 40
    (tokens, masked), again = draw_masked(given), draw_masked(iter(given))
    assert tokens.equal(again[0]) and masked.equal(again[1])
    assert not masked[tokens == 2].any()
    # five standard deviations of the mean of some 4,500 draws
    assert abs(masked.sum() / (tokens != 2).sum() - MASKED_SHARE) < 0.027


# ---- Minimal pairs


def test_accuracy_by_hand():
    accuracy = PairAccuracy()
    for file, phenomenon, good, bad in [
        ("b", "island", -1.0, -2.0), ("b", "island", -2.0, -1.0), ("b", "", -3.0, -3.0),
        ("b", "npi", 0.0, -9.0), ("a", "npi", -1.0, -2.0),
    ]:  # fmt: skip
        accuracy.add(file, phenomenon, good, bad)
    found = accuracy.to_dict()
    # a tie is wrong
    assert found["all"] == {
        "pairs": 5, "right": 3, "ties": 1, "accuracy": 0.6,
        "standard_error": pytest.approx(math.sqrt(0.6 * 0.4 / 5)),
    }  # fmt: skip
    assert found["files"]["b"]["standard_error"] == pytest.approx(0.25)
    assert found["phenomena"]["island"]["pairs"] == 2 and found["phenomena"]["npi"]["right"] == 2
    assert found["mean_of_files"] == {"of": 2, "accuracy": 0.75, "standard_error": 0.125}
    assert "| mean of files (2) | 75.00 | 12.50 |  |  |" in accuracy_table(found)


def test_files_and_columns(tmp_path):
    """Files of a folder at any depth; two of one name stay apart."""
    pairs = [("A cat.", "Cat a."), ("No fish.", "No fish no.")]
    write_pairs(tmp_path / "a" / "x.jsonl", pairs, linguistics_term="npi", kind="other")
    write_pairs(tmp_path / "b" / "x.jsonl", pairs[:1])
    files = pair_files([str(tmp_path), str(tmp_path / "a" / "x.jsonl")])
    assert list(files) == ["x", str(tmp_path / "b" / "x")]
    found = list(read_pairs(files, "sentence_good", "sentence_bad", None))
    assert [tuple(sentences) for _, sentences, _ in found] == [*pairs, pairs[0]]
    assert found[1][2] == {"file": "x", "row": 2, "phenomenon": "npi"}
    (pair,) = read_pairs({"x": files["x"]}, "sentence_bad", "sentence_good", "kind", per_file=1)
    assert tuple(pair[1]) == pairs[0][::-1] and pair[2]["phenomenon"] == "other"
    (tmp_path / "x.jsonl").write_text('{"sentence_good": "a", "bad": "b"}\n')
    with pytest.raises(ValueError, match=r"has no column 'sentence_bad' .--bad."):
        list(
            read_pairs(
                pair_files([str(tmp_path / "x.jsonl")]), "sentence_good", "sentence_bad", None
            )
        )
