"""The checkpoints of an interrupted training."""

import pytest

from helpers.glue_data import write_checkpoint
from tupe_fairseq.programs.save_dir import BEST, LAST, discard_damaged


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "cut"])
def test_a_checkpoint_cut_short_is_made_again(whole, tmp_path):
    for name in (BEST, LAST):
        write_checkpoint(tmp_path / name)
    if not whole:
        with open(tmp_path / LAST, "r+b") as file:
            file.truncate(500)
    discard_damaged(str(tmp_path))
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ([BEST, LAST] if whole else [])
