"""tupe-predict and tupe-encode interrupted and given again: the same bytes, by any way."""

import json
import os

import pytest
import torch

from helpers.glue_files import sentence
from helpers.predicting import encode, predict, write_fine_tuned
from tupe_fairseq.commands import chunk_run
from tupe_fairseq.prediction import row_chunks
from tupe_fairseq.prediction.batched_encoder import BatchedEncoder

ROWS = 23


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.manual_seed(1)
    return write_fine_tuned(tmp_path_factory.mktemp("models") / "model", rel_pos=True)


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Three chunks of ten rows."""
    monkeypatch.setattr(row_chunks, "CHUNK_ROWS", 10)
    texts = [sentence(number) * (1 + number % 3) for number in range(ROWS)]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def stop_in_chunk(monkeypatch, number):
    """Ctrl-C while the chunk of this number, from 0 on, is computed; then all is as it was."""
    run, seen = BatchedEncoder.__call__, []

    def call(self, sequences):
        seen.append(len(sequences))
        if len(seen) == number + 1:
            raise KeyboardInterrupt
        return run(self, sequences)

    monkeypatch.setattr(BatchedEncoder, "__call__", call)
    return seen


@pytest.mark.parametrize("name", ["out.tsv", "out.csv", "out.jsonl", "out.npy", "out.safetensors"])
def test_the_same_bytes(name, model, source, tmp_path, monkeypatch):
    command = predict if name.split(".")[1] in ("tsv", "csv", "jsonl") else encode
    words = [model, source, "--output-file"]
    assert command(*words, tmp_path / f"whole-{name}")[0] == 0
    (tmp_path / name).write_text("earlier")
    for stop in (2, 0):
        with monkeypatch.context() as context:
            stop_in_chunk(context, stop)
            code, log = command(*words, tmp_path / name)
        assert code == 130 and "interrupted; run it again to go on" in log
        assert (tmp_path / name).read_text() == "earlier"
        assert (tmp_path / f"{name}.parts").is_dir()
    # of a write that the machine did not survive
    with open(tmp_path / f"{name}.parts" / "content", "ab") as file:
        file.write(b"half a line")
    with monkeypatch.context() as context:
        seen = stop_in_chunk(context, ROWS)
        code, log = command(*words, tmp_path / name)
    assert code == 0 and seen == [ROWS - 20]
    assert f"{ROWS} rows" in log
    assert (tmp_path / name).read_bytes() == (tmp_path / f"whole-{name}").read_bytes()
    assert set(os.listdir(tmp_path)) == {"in.jsonl", name, f"whole-{name}"}


def test_what_an_interrupted_run_does_not_go_on_with(model, source, tmp_path, monkeypatch):
    words = [model, source, "--output-file", tmp_path / "out.csv"]
    with monkeypatch.context() as context:
        stop_in_chunk(context, 0)
        assert predict(*words)[0] == 130
    # nothing to go on with
    assert os.listdir(tmp_path) == ["in.jsonl"]
    with monkeypatch.context() as context:
        stop_in_chunk(context, 1)
        assert predict(*words)[0] == 130
    record = tmp_path / "out.csv.parts" / "steps.json"
    whole = record.read_text()
    for parts in (2, 2**63):
        record.write_text(whole.replace('"parts": 1', f'"parts": {parts}'))
        assert record.read_text() != whole
        code, log = predict(*words)
        assert code == 2 and "steps.json is damaged" in log and f"in {parts} parts" in log
    record.write_text(whole)
    code, log = predict(*words, "--unpad")
    assert code == 2 and "--unpad was False and is now True" in log
    source.write_text(source.read_text() + '{"text": "more"}\n')
    code, log = predict(*words)
    assert code == 2 and "in.jsonl has changed since" in log


def test_several_processes_give_the_same_bytes(model, source, tmp_path, monkeypatch):
    """Two GPUs are two processes; here both compute on the CPU."""
    words = [model, source, "--output-file"]
    assert predict(*words, tmp_path / "one.csv")[0] == 0
    one = chunk_run.map_on_devices
    monkeypatch.setattr(
        chunk_run, "map_on_devices", lambda make, items, devices: one(make, items, ["cpu", "cpu"])
    )
    code, log = predict(*words, tmp_path / "two.csv")
    assert code == 0, log
    assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
