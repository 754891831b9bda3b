"""Batches of similar length: every sequence once, and results in the order of the sequences."""

import numpy as np
import pytest
import torch

from tupe_fairseq import TupeConfig
from tupe_fairseq.inference.model import WordEncoder
from tupe_fairseq.inference.texts import batches_by_length, run

LENGTHS = [3, 9, 2, 9, 5, 3, 30, 2]


@pytest.mark.parametrize("tokens, sizes", [(1, [1] * 8), (18, [1, 2, 3, 2]), (1000, [8])])
def test_batches(tokens, sizes):
    found = list(batches_by_length(LENGTHS, tokens))
    assert sorted(row for rows in found for row in rows) == list(range(len(LENGTHS)))
    assert [len(rows) for rows in found] == sizes
    lengths = [LENGTHS[row] for rows in found for row in rows]
    assert lengths == sorted(LENGTHS, reverse=True)


def test_nothing_depends_on_order_or_batches():
    torch.manual_seed(1)
    encoder = WordEncoder(TupeConfig(embed_dim=16, ffn_embed_dim=24, rel_pos=True), 50).eval()
    sequences = [[0, *torch.randint(4, 50, (n - 2,)).tolist(), 2] for n in LENGTHS]

    def first(hidden, real):
        return hidden[:, 0]

    with torch.no_grad():
        wanted = [encoder(encoder.embed_tokens(torch.tensor([ids])))[0, 0] for ids in sequences]
    wanted = torch.stack(wanted).numpy()
    order = list(range(len(LENGTHS)))
    for tokens in (1, 18, 1000):
        for rows in (order, order[::-1], [order[3]]):
            found = run(encoder, [sequences[row] for row in rows], first, tokens)
            # rounding of float32
            np.testing.assert_allclose(np.stack(found), wanted[rows], rtol=0, atol=1e-5)
    assert run(encoder, [], first) == []
