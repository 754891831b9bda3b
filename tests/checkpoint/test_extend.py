"""Tables for more positions: which rows stay, and what the new ones are."""

import pytest
import torch

from helpers.position_cases import ALL, DIM, HEADS, MAX, Case, parametrized
from tupe_fairseq.checkpoint.extend import longer_table
from tupe_fairseq.cli.extend import METHODS
from tupe_fairseq.position import CATALOGUE, build_position_encoding

WITH_TABLE = [case for case in ALL if case.has_table]


def build(case, max_positions=MAX):
    return build_position_encoding(
        case.name, embed_dim=DIM, num_heads=HEADS, max_positions=max_positions, **case.options
    )


def table_of(position):
    return position.get_parameter(position.TABLE).detach()


def longer(position, case, max_positions, method):
    """The encoding of ``max_positions`` with the other's parameters and the longer table."""
    state = dict(position.state_dict())
    state[position.TABLE] = longer_table(table_of(position), MAX, max_positions, method)
    found = build(case, max_positions)
    found.load_state_dict(state)
    return found


def by_loops(rows, number, method):
    """The rows of positions 1, 2, ... as the words of the command say, one at a time."""
    found = []
    for place in range(number):
        if method == "tile":
            found.append(rows[place % len(rows)])
        elif method == "zero":
            found.append(rows[place] if place < len(rows) else torch.zeros(DIM))
        else:
            exact = place * (len(rows) - 1) / (number - 1)
            before = min(int(exact), len(rows) - 1)
            after = rows[min(before + 1, len(rows) - 1)]
            found.append(rows[before] + (exact - before) * (after - rows[before]))
    return torch.stack(found)


@parametrized(WITH_TABLE)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("max_positions", [MAX + 1, 3 * MAX + 2])
def test_rows_are_those_of_a_loop(case, method, max_positions):
    position = build(case)
    table = position.get_parameter(position.TABLE).detach()
    of_cls = 2 if case.name == "tupe" else 1
    found = longer_table(table_of(position), MAX, max_positions, method)
    assert found.shape == (max_positions + of_cls - 1, DIM)
    assert found[:of_cls].equal(table[:of_cls])
    wanted = by_loops(table[of_cls:], max_positions - 1, method)
    torch.testing.assert_close(found[of_cls:], wanted)


@parametrized(WITH_TABLE)
@pytest.mark.parametrize("method", ["tile", "zero"])
def test_old_positions_are_as_they_were(case, method):
    position = build(case)
    after = longer(position, case, 2 * MAX, method)
    words = torch.randn(2, MAX, DIM)
    assert after.forward_input(words).equal(position.forward_input(words))
    q, k = torch.randn(2, 2, HEADS, MAX, DIM // HEADS)
    # another number of rows goes through a matrix product
    torch.testing.assert_close(after.forward_attn(q, k), position.forward_attn(q, k))


@parametrized([case for case in WITH_TABLE if "rel_pos" not in case.options])
def test_interpolated_positions_have_the_scores_of_the_old_ones(case):
    """Each second position is an old one; [CLS] stays at 0, and its scores as they were."""
    position = build(case)
    after = longer(position, case, 2 * MAX - 2, "interpolate")
    places = torch.cat([torch.zeros(1, dtype=torch.long), torch.arange(1, 2 * MAX - 2, 2)])
    assert len(places) == MAX
    words, (q, k) = torch.randn(1, MAX, DIM), torch.randn(2, 1, HEADS, MAX, DIM // HEADS)
    torch.testing.assert_close(
        after.forward_input(words, places), position.forward_input(words), rtol=1e-6, atol=1e-6
    )
    torch.testing.assert_close(
        after.forward_attn(q, k, places, places), position.forward_attn(q, k)
    )


@pytest.mark.parametrize("name", ["tupe", "disentangled"])
def test_positions_of_zeros_have_one_score(name):
    """The layer norm makes its bias of each: what the command warns of."""
    after = longer(build(Case(name, {})), Case(name, {}), 2 * MAX, "zero")
    new = after(2 * MAX)[:, MAX:, MAX:]
    torch.testing.assert_close(new, new[:, :1, :1].expand_as(new))


@pytest.mark.parametrize("method", ["interpolate", "tile"])
def test_a_table_of_cls_alone_is_refused(method):
    position = CATALOGUE["learned"](DIM, HEADS, 1)
    with pytest.raises(ValueError, match=rf"max_positions \(1\) has no .* --method {method} "):
        longer_table(position.pos.weight, 1, 4, method)
    assert longer_table(position.pos.weight, 1, 4, "zero").shape == (4, DIM)
    two = CATALOGUE["learned"](DIM, HEADS, 2)
    assert longer_table(two.pos.weight, 2, 4, method)[1:].equal(two.pos.weight[1:].expand(3, -1))
