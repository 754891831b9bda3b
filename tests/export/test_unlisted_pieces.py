"""Words that a folder has and its checkpoint has not."""

import pytest
import torch

from helpers.crafted import whole_state
from tupe_fairseq.export.folder_tensors import to_folder
from tupe_fairseq.export.unlisted_pieces import with_unlisted_rows, without_unlisted_rows


@pytest.mark.parametrize("tied", [True, False])
def test_they_are_like_unk_and_never_predicted(tied):
    tensors = to_folder(whole_state()["model"])
    if not tied:
        tensors["lm_head.decoder.weight"] = torch.randn_like(tensors["tupe.embed_tokens.weight"])
    found = with_unlisted_rows(tensors, 5)
    words, bias = found["tupe.embed_tokens.weight"], found["lm_head.decoder.bias"]
    matrix = words if tied else found["lm_head.decoder.weight"]
    assert len(words) == len(matrix) == len(bias) == 17
    assert all(torch.equal(row, words[3]) for row in words[12:])
    x = torch.randn(8)
    logits = matrix @ x + bias
    torch.testing.assert_close(logits[12:], (logits[3] - 20).expand(5))
    back = without_unlisted_rows(found, 5)
    assert set(back) == set(tensors)
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
