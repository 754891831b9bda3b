"""Pooling as sentence-transformers reads it."""

import json

import pytest

from tupe_fairseq.export.sentence_files import POOLINGS, sentence_files


@pytest.mark.parametrize("pooling", POOLINGS)
def test_one_pooling_is_on(pooling):
    files = json.loads(json.dumps(sentence_files(pooling, 16, 24)))
    config = files["1_Pooling/config.json"]
    switches = {name for name, value in config.items() if name.startswith("pooling_") and value}
    assert switches == {POOLINGS[pooling]} and config["word_embedding_dimension"] == 16
    assert files["sentence_bert_config.json"]["max_seq_length"] == 24
    assert [one["path"] for one in files["modules.json"]] == ["", "1_Pooling"]
