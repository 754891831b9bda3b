"""The loss at each length equals a loop's over the training model, whatever is in the batches."""

import random

import pytest
import torch

from helpers.exporting import MAX_POSITIONS, build, save
from helpers.glue_files import write_pretrain_dir
from tupe_fairseq.inference.model import load
from tupe_fairseq.scoring.pseudo_likelihood import (
    MASKED_SHARE,
    draw_masked,
    lengths_table,
    loss_at_length,
)


def lines(num_symbols):
    """Tokens of lines of several lengths."""
    draw = random.Random(4)
    return [
        [0, *(draw.randrange(4, num_symbols - 1) for _ in range(length)), 2]
        for length in (1, 30, 7, 3, 41, 9, 22)
    ]


def by_a_loop(model, text, chosen, length, mask):
    """Position and loss of every masked piece, sample by sample."""
    found = []
    for start in range(0, len(text), length - 1):
        sample = torch.tensor([0, *text[start : start + length - 1]])
        places = [1 + n for n, one in enumerate(chosen[start : start + length - 1]) if one]
        masked = sample.clone()
        masked[places] = mask
        with torch.no_grad():
            logs = model(masked[None])[0][0].log_softmax(-1)
        found += [(place, -logs[place, sample[place]].item()) for place in places]
    return found


@pytest.mark.parametrize("options", [{"rel_pos": True}, {"position_encoding": "rope"}])
def test_losses_are_those_of_a_loop(options, tmp_path):
    dictionary = write_pretrain_dir(tmp_path / "data") / "dict.txt"
    args, model = build(dictionary, **options)
    loaded = load(str(save(tmp_path, args, model)), str(dictionary.parent))
    mask, given = loaded.symbols.index("<mask>"), lines(len(loaded.symbols))
    text = [token for line in given for token in line[1:]]
    drawn = draw_masked(given)
    chosen = drawn[1].tolist()
    assert drawn[0].tolist() == text
    for length in (5, 8, MAX_POSITIONS):
        wanted = by_a_loop(model.eval(), text, chosen, length, mask)
        for batch_tokens in (1, 3 * length, 10_000):
            found = loss_at_length(loaded.masked_logits, drawn, mask, length, 5, batch_tokens)
            assert found["length"] == length and found["pieces"] == sum(chosen) == len(wanted)
            mean = sum(loss for _, loss in wanted) / len(wanted)
            assert found["loss"] == pytest.approx(mean, rel=1e-5)
            assert [one["to"] for one in found["by_position"]][-1] == length
            for one in found["by_position"]:
                inside = [loss for place, loss in wanted if one["from"] <= place < one["to"]]
                assert one["pieces"] == len(inside)
                mean = sum(inside) / len(inside) if inside else None
                assert one["loss"] == pytest.approx(mean, rel=1e-5)


def test_the_same_pieces_are_drawn_each_time_and_no_end_of_a_line():
    given = lines(50) * 40
    (tokens, masked), again = draw_masked(given), draw_masked(iter(given))
    assert tokens.equal(again[0]) and masked.equal(again[1])
    assert not masked[tokens == 2].any()
    # five standard deviations of the mean of some 4,500 draws
    assert abs(masked.sum() / (tokens != 2).sum() - MASKED_SHARE) < 0.027


def test_table_of_bins_that_a_length_does_not_reach():
    found = [
        {"length": length, "loss": 1.5,
         "by_position": [{"from": n, "to": n + 4, "loss": None if n else 2.0}
                         for n in range(0, length, 4)]}
        for length in (4, 8)
    ]  # fmt: skip
    assert lengths_table(found).splitlines()[2:] == [
        "| 4 | 1.5000 | 2.0000 |  |",
        "| 8 | 1.5000 | 2.0000 | - |",
    ]
