"""The reset of Eq. (9), row and column."""

import torch

from tupe_fairseq.position import untie_cls


def test_touches_row_0_and_column_0_alone_and_the_row_wins():
    bias = torch.randn(2, 5, 5)
    before = bias.clone()
    row, column = torch.tensor([10.0, 11.0]), torch.tensor([20.0, 21.0])
    out = untie_cls(bias, row, column, 5, 5)
    assert bias.equal(before)
    assert out[:, 1:, 1:].equal(bias[:, 1:, 1:])
    assert out[:, 0].equal(row[:, None].expand(2, 5))
    assert out[:, 1:, 0].equal(column[:, None].expand(2, 4))
