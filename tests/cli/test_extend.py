"""tupe-extend: what loads afterwards, what it computes, and what is written beside it."""

import json
import shutil

import pytest
import torch
import torch.nn.functional as F

from helpers.models import (
    CHECKPOINT,
    HEAD,
    MAX_POSITIONS,
    MEAN_POOLING,
    hub_of,
    write_fine_tuned,
    write_model,
)
from helpers.running import refused, run_here
from helpers.training import UP_TO_64, pretrain
from helpers.vocabularies import convert, printed_commands, write_gpt2
from tupe_fairseq.checkpoint.checkpoint import read
from tupe_fairseq.files import read_json
from tupe_fairseq.position import CATALOGUE

LONGER = 40


def extend(checkpoint, out, *flags, length=LONGER):
    """Run tupe-extend; returns what it printed."""
    words = [checkpoint, "--max-positions", length, "--output-dir", out, *flags]
    return run_here("tupe-extend", *words).stdout


def tokens(length):
    return torch.cat([torch.zeros(2, 1), torch.randint(4, 100, (2, length - 1))], 1).long()


@pytest.mark.parametrize("name", ["tupe", "learned", "rope", "enformer"])
def test_short_sequences_as_before_and_longer_ones_at_all(name, vocabulary, tmp_path):
    table = CATALOGUE[name].TABLE
    options = {"rel_pos": True} if "rel_pos" in CATALOGUE[name].takes else {}
    path = write_model(tmp_path / "a", vocabulary, position_encoding=name, **options)
    method = "tile" if table else "interpolate" if name == "enformer" else None
    flags = ["--data", vocabulary, *(["--method", method] if method else [])]
    text = extend(path, tmp_path / "out", *flags)
    before = hub_of(path.parent, path.name, vocabulary, tokens_per_sample=MAX_POSITIONS)
    after = hub_of(tmp_path / "out")
    assert after.model.args.max_positions == after.model.max_positions() == LONGER
    short, long = tokens(MAX_POSITIONS), tokens(LONGER)
    with torch.no_grad():
        assert after.model(long)[0].isfinite().all()
        wanted, found = before.model(short)[0], after.model(short)[0]
    if name == "enformer":
        assert "stretched by 1.66667" in text and not torch.allclose(wanted, found, atol=1e-3)
    else:
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", ["interpolate", "tile"])
def test_a_new_table_is_what_is_written_and_nothing_else(method, vocabulary, tmp_path):
    path, out = write_model(tmp_path / "a", vocabulary, rel_pos=True), tmp_path / "out"
    extend(path, out, "--data", vocabulary, "--method", method)
    old, state = read(path)[1], torch.load(out / "model.pt", weights_only=False)
    (table,) = [key for key, x in state["model"].items() if not x.equal(old[key])]
    assert table.endswith("position_bias.untied_absolute.pos.weight")
    cls, rows = old[table].split([2, MAX_POSITIONS - 1])
    if method == "tile":
        rows = rows[torch.arange(LONGER - 1) % len(rows)]
    else:
        columns = rows.T[None]
        rows = F.interpolate(columns, LONGER - 1, mode="linear", align_corners=True)[0].T
    torch.testing.assert_close(state["model"][table], torch.cat([cls, rows]))
    assert state["last_optimizer_state"] is None
    names = {"model.pt", "dict.txt", "sentencepiece.bpe.model", "vocabulary.json", "report.json"}
    assert {one.name for one in out.iterdir()} == names
    for name in names - {"model.pt", "vocabulary.json"}:
        assert (out / name).read_bytes() == (vocabulary / name).read_bytes()
    record = read_json(vocabulary / "vocabulary.json")
    assert read_json(out / "vocabulary.json") == {**record, "max_positions": LONGER}


def test_training_continues_with_the_printed_flags(subwords, tmp_path):
    pretrain(subwords, tmp_path / "a", "--rel-pos", "--max-update", 2, *UP_TO_64)
    out, last = tmp_path / "out", tmp_path / "a" / "checkpoint_last.pt"
    text = extend(last, out, "--data", subwords, "--method", "interpolate", length=128)
    assert "left out the training state" in text, text
    lines = [line for line in text.splitlines() if not line.startswith("tupe-extend:")]
    (command,) = printed_commands("\n".join(lines)).values()
    assert command[0] == str(subwords) and "--max-positions=128" in command
    assert command[command.index("--tokens-per-sample") + 1] == "128"
    model = command[command.index("--finetune-from-model") + 1]
    process = pretrain(
        subwords, tmp_path / "b", "--rel-pos", "--finetune-from-model", model, "--max-update", 2,
        "--max-positions", 128, "--tokens-per-sample", 128,
    )  # fmt: skip
    assert '"num_updates": "2"' in process.stdout and "loaded" in process.stdout


def test_a_fine_tuned_model_keeps_head_labels_and_report(tmp_path):
    path = write_fine_tuned(tmp_path / "a", rel_pos=True, **MEAN_POOLING)
    extend(path, tmp_path / "out", "--method", "tile")
    names = {str(one.relative_to(tmp_path / "a")) for one in (tmp_path / "a").rglob("*")}
    written = {str(one.relative_to(tmp_path / "out")) for one in (tmp_path / "out").rglob("*")}
    assert written == names - {CHECKPOINT} | {"model.pt"}
    name = f"classification_heads.{HEAD}.out_proj.weight"
    assert read(tmp_path / "out" / "model.pt")[1][name].equal(read(path)[1][name])
    (tmp_path / "in.csv").write_text("text\nA cat.\n" + "The cat sat on it. " * 6 + "\n")
    rows = []
    for model in (path, tmp_path / "out" / "model.pt"):
        out = tmp_path / f"{model.parent.name}.csv"
        run_here("tupe-predict", model, tmp_path / "in.csv", "--cpu", "--output-file", out)
        rows.append(out.read_text().splitlines())
    # the second text is longer than the old model, which sees only its beginning
    assert rows[0][1].rsplit(",", 1)[0] == rows[1][1].rsplit(",", 1)[0]
    assert rows[0][2] != rows[1][2]


def test_a_recorded_vocabulary_says_the_new_length(tmp_path):
    convert(write_gpt2(tmp_path / "theirs"), tmp_path / "a")
    extend(tmp_path / "a" / "model.pt", tmp_path / "b", "--method", "tile")
    records = [json.loads((tmp_path / x / "vocabulary.json").read_text()) for x in "ab"]
    assert [record.pop("max_positions") for record in records] == [16, LONGER]
    assert records[0] == records[1]


def test_what_is_refused(vocabulary, tmp_path):
    """Lengths and methods without effect, a used output folder, and a different vocabulary."""
    data = shutil.copytree(vocabulary, tmp_path / "data")
    table = write_model(tmp_path / "a", data)
    rope = write_model(tmp_path / "b", data, position_encoding="rope")
    out, tile = tmp_path / "out", ["--method", "tile"]

    def line(model, length, *flags):
        words = [model, "--data", data, "--max-positions", length, "--output-dir", out]
        return refused("extend", *words, *flags)

    message = "--max-positions (24) must be above the checkpoint's, 24"
    assert message in line(table, 24, *tile)
    assert "tupe has a table of positions; give --method" in line(table, 25)
    assert "rope has no table of positions; drop --method" in line(rope, 25, *tile)
    assert not out.exists()
    extend(table, out, "--data", data, *tile)
    before = (out / "model.pt").read_bytes()
    message = "; give another --output-dir"
    assert message in line(table, 24, *tile)  # before the model is read
    lines = (data / "dict.txt").read_text().splitlines()
    (data / "dict.txt").write_text("\n".join([*lines[::-1], ""]))
    message = "trained with a different vocabulary of the same size"
    assert message in line(table, 40, *tile, "--overwrite")
    assert (out / "model.pt").read_bytes() == before
