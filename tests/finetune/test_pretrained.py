"""Reading a pre-trained checkpoint."""

import torch

from helpers.glue_data import DICTIONARY, write_checkpoint
from tupe_fairseq.finetune.pretrained import read_pretrained


def test_an_older_checkpoint_does_not_record_its_vocabulary(tmp_path):
    path = write_checkpoint(tmp_path / "model.pt")
    state = torch.load(path)
    assert read_pretrained(str(path)).vocabulary_version is not None
    del state["model"]["encoder.vocabulary_version"]
    torch.save(state, path)
    model = read_pretrained(str(path))
    assert model.vocabulary_version is None
    assert model.vocabulary_size == len(DICTIONARY) + 5
