"""fairseq's stock RoBERTa beside this plugin: what the main branch writes, it can load again.

With torch 2.6 and later the main branch alone refuses its own checkpoints, which hold an
argparse.Namespace; with --user-dir, or once tupe_fairseq is imported, it does not.
"""

import pytest
import torch
from fairseq.models.roberta import RobertaModel

import tupe_fairseq  # noqa: F401
from helpers.training import PRETRAINING, losses


@pytest.mark.skipif(
    not hasattr(torch.serialization, "add_safe_globals"),
    reason="this torch, and so the official fairseq, unpickles freely",
)
def test_a_run_of_stock_roberta_is_resumed_and_loaded(data, run, tmp_path):
    words = [data, *PRETRAINING, "--arch", "roberta_base", "--save-dir", tmp_path]
    assert sorted(losses(run("fairseq-train", *words, "--max-update", 1))) == [1]
    process = run("fairseq-train", *words, "--max-update", 2)
    assert "checkpoint_last.pt (epoch 1 @ 1 updates)" in process.stdout
    assert sorted(losses(process)) == [2]
    hub = RobertaModel.from_pretrained(str(tmp_path), "checkpoint_last.pt", str(data), bpe=None)
    assert type(hub.model) is RobertaModel
    assert hub.eval().extract_features(torch.tensor([[0, 5, 2]])).isfinite().all()
