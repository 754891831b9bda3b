"""Every flag of every command reaches what it changes; a new flag fails here until it has a case.

tupe-plot's are in test_plot.py, tupe-doctor's in test_doctor.py, fairseq-train's in
tests/models/test_every_flag.py.
"""

import json
import shlex
import sys

import pytest
import torch

from helpers import raw_text
from helpers.authors import WORDS, their_checkpoint
from helpers.exporting import exporting_quickly, write_model
from helpers.glue_files import write_pretrain_dir
from helpers.running import call_program
from tupe_fairseq.checkpoint.checkpoint import read
from tupe_fairseq.cli import prepare_pretrain
from tupe_fairseq.commands import (
    compare,
    convert,
    export,
    extend,
)
from tupe_fairseq.compare.runner import first_runs


def flags_of(parser):
    flags = {flag for action in parser._actions for flag in action.option_strings}
    return flags - {"-h", "--help"}


EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of no bytes
# tupe-compare: what is given, and what its first run's script has then, and has otherwise
COMPARE = {
    "--output-dir": (None, "--save-dir DATA/out/tupe_roberta_tiny/learned-seed1", None),
    "--schemes": ("none; alibi", "--position-encoding none", "--position-encoding learned"),
    "--updates": ("60", "--max-update 60 ", "--max-update 40 "),
    "--seeds": ("7", "--seed 7 ", "--seed 1 "),
    "--arch": ("tupe_roberta_mini", "--arch tupe_roberta_mini ", "--arch tupe_roberta_tiny "),
    "--batch-size": ("5", "--batch-size 5 ", "--batch-size 16 "),
    "--tokens-per-sample": (
        "33", "--tokens-per-sample 33 --max-positions 33 ",
        "--tokens-per-sample 128 --max-positions 128 ",
    ),
    "--lr": ("0.25", "--lr 0.25 ", "--lr 0.001 "),
    "--tune-lrs": ("0.25,0.5", "--lr 0.25 ", "--lr 0.001 "),
    "--warmup-updates": ("9", "--warmup-updates 9 ", "--warmup-updates 2 "),
    "--validate-every": ("8", "--validate-interval-updates 8 ", "--validate-interval-updates 2 "),
    "--train-flags": ("--dropout 0.25", "--dropout 0.25 ", "--log-interval 2 --position"),
    "--cpu": ("", "--cpu ", "--log-interval 2 --position"),
    "--fp16": ("", "--fp16 ", "--log-interval 2 --position"),
    "--threads": ("3", "OMP_NUM_THREADS=3", "OMP_NUM_THREADS=1"),
}  # fmt: skip
# what is given, and what the runs are then started with, and otherwise
COMPARE_STARTS = {
    "--baseline": ("tupe", "baseline", "tupe", None),
    "--gpus": ("2,5", "devices", ["2", "5"], ["0"]),
    "--parallel": ("3", "devices", ["0", "0", "0"], ["0"]),
    "--keep-checkpoints": ("", "keep_checkpoints", True, False),
    "--stop-after": ("0.5", "has a limit", True, False),
    "--claims": ("tupe over learned: loss by 1", "claims", ["tupe over learned: loss by 1"], []),
}
# what is given beside a folder of pairs and a task, and what is read out then, and otherwise
COMPARE_READS = {
    "--pairs": ("", "pairs", EMPTY),
    "--pairs-per-file": ("7", "pairs_per_file", 7),
    "--tasks": ("", "tasks", {"CoLA": EMPTY}),
    "--poolings": ("mean,cls", "poolings", ["mean", "cls"]),
    "--finetune-flags": ("--seeds 1,2", "finetune_flags", ["--seeds", "1,2"]),
}


@pytest.fixture
def comparing(tmp_path, monkeypatch):
    """Calls tupe-compare up to its runs; their scripts, and what they are started with."""
    (tmp_path / "bin").mkdir()
    for name in ("dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx"):
        (tmp_path / "bin" / name).write_text("")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def call(*flags):
        seen = []

        def record(
            comparison, runs, parameters, baseline, claims, devices, keep_checkpoints, limit
        ):
            first, _ = first_runs(comparison, runs)
            scripts = [own.script(run) for own, run in first]
            seen.append(
                {"scripts": scripts, "baseline": baseline, "devices": devices,
                 "claims": [claim.text for claim in claims],
                 "readouts": comparison.readouts.settings(),
                 "keep_checkpoints": keep_checkpoints, "has a limit": limit.left() is not None}
            )  # fmt: skip
            return ""

        monkeypatch.setattr(compare, "run_comparison", record)
        code, text = call_program(
            compare.main,
            [tmp_path / "bin", "--output-dir", tmp_path / "out", "--schemes", "learned; tupe",
             "--updates", 40, *flags],
        )  # fmt: skip
        assert code == 0, text
        return seen

    return call


@pytest.mark.parametrize("flag", COMPARE)
def test_compare(flag, comparing, tmp_path):
    value, with_it, without = COMPARE[flag]

    def script(*flags):
        (found,) = comparing(*flags)
        words = shlex.split(found["scripts"][0].replace("\\\n", ""), comments=True)
        return " ".join(words).replace(str(tmp_path), "DATA")

    found = script(*([] if value is None else [f"{flag}={value}"] if value else [flag]))
    assert with_it in found
    if without is not None:
        assert without in script() and without not in found


@pytest.mark.parametrize("flag", COMPARE_STARTS)
def test_compare_starts(flag, comparing):
    value, name, with_it, without = COMPARE_STARTS[flag]
    assert comparing(*([flag, value] if value else [flag]))[0][name] == with_it
    assert comparing()[0][name] == without


def test_compare_reads(comparing, tmp_path):
    for name in ("one.jsonl", "CoLA/report.json", "CoLA/input0/dict.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    usual = ["--pairs", tmp_path / "one.jsonl", "--tasks", tmp_path / "CoLA"]
    before = comparing(*usual)[0]["readouts"]
    assert comparing()[0]["readouts"] == {}
    for flag, (value, name, expected) in COMPARE_READS.items():
        found = comparing(*usual, *([flag, value] if value else []))[0]["readouts"]
        assert found[name] == expected and (not value or before[name] != expected)


def test_compare_dry_run_starts_nothing(comparing):
    assert comparing("--dry-run") == []


def test_compare_reads_flags_from_a_file(comparing, tmp_path):
    (tmp_path / "flags.yaml").write_text("seeds: 7\n")
    given = comparing("--config", tmp_path / "flags.yaml")[0]["scripts"]
    assert given == comparing("--seeds", 7)[0]["scripts"] != comparing()[0]["scripts"]


def test_compare_tunes_for_a_tenth_of_the_updates(comparing):
    def script(*flags):
        return comparing("--tune-lrs", "0.5,0.25", *flags)[0]["scripts"][0].replace("\\\n ", "")

    assert "--max-update 4 " in script() and "--total-num-update 4 " in script()
    assert "--max-update 7 " in script("--tune-updates", 7)


def test_compare_has_no_other_flags():
    elsewhere = {"--config", "--dry-run", "--seconds", "--tokens", "--tune-updates"}
    known = {*COMPARE, *COMPARE_STARTS, *COMPARE_READS, *elsewhere}
    assert flags_of(compare.get_parser()) == known


# tupe-prepare-pretrain: further flags that the flag needs, and its values without and with it
PRETRAIN = {
    "--input": ([], "TEXT", "OTHER"),
    "--text-field": (["rows"], "text", "title"),
    "--lowercase": ([], None, ""),
    "--split-sentences": ([], None, ""),
    "--min-chars": ([], 1, 40),
    "--max-chars": ([], 100_000, 120),
    "--join-short": ([], 0, 60),
    "--valid-input": ([], None, "OTHER"),
    "--test-input": ([], None, "OTHER"),
    "--valid-fraction": ([], 0.005, 0.4),
    "--test-fraction": ([], 0.005, 0.4),
    "--shards": ([], 1, 2),
    "--vocab-size": ([], 120, 100),
    "--model-type": ([], "unigram", "bpe"),
    "--character-coverage": ([], 1, 0.98),
    "--sentencepiece-model": (["no vocabulary"], None, "MODEL"),
    "--tokens-per-sample": ([], 512, 12),
}
# another folder, another number of processes, a sample of at least 1 MiB: in tests/data
PRETRAIN_ELSEWHERE = {"--output-dir", "--workers", "--sample-mb", "--vocabulary"}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    documents = [[f"{line} Also {line}" for line in lines] for lines in raw_text.documents(40)]
    raw_text.write(folder / "text", documents)
    rows = [{"title": lines[-1], "text": "\n".join(lines)} for lines in documents]
    (folder / "rows").write_text("\n".join(map(json.dumps, rows)))
    raw_text.write(folder / "other", raw_text.documents(30, seed=8))
    write_pretrain_dir(folder / "model")
    return folder


@pytest.fixture(scope="module")
def prepared(texts, tmp_path_factory):
    """Runs tupe-prepare-pretrain on short text; what is written but for its own records."""
    places = {
        "TEXT": texts / "text", "OTHER": texts / "other",
        "MODEL": texts / "model" / "sentencepiece.bpe.model",
    }  # fmt: skip

    def run(flag, value, *further):
        folder = tmp_path_factory.mktemp("prepared") / "data"
        words = ["--output-dir", folder, "--workers", 1]
        if flag != "--input":
            words += ["--input", texts / ("rows" if "rows" in further else "text")]
        if "no vocabulary" not in further:
            words += ["--vocab-size", 120, "--character-coverage", 1]
        if value is not None:
            words += [flag, *([places.get(value, value)] if value != "" else [])]
        code, text = call_program("prepare-pretrain", words)
        assert code == 0, text
        files = raw_text.contents(folder)
        del files["report.json"]
        return files

    return run


@pytest.mark.parametrize("flag", PRETRAIN)
def test_prepare_pretrain(flag, prepared):
    further, without, value = PRETRAIN[flag]
    base = prepared(flag, "TEXT") if flag == "--input" else plain(prepared)
    assert prepared(flag, value, *further) != base
    # the default is the default, and what is written does not differ by chance
    if without is not None and flag != "--input":
        assert prepared(flag, without, *further) == base


_PLAIN = {}


def plain(prepared):
    """What is written without any flag, made once."""
    if prepared not in _PLAIN:
        _PLAIN[prepared] = prepared("", None)
    return _PLAIN[prepared]


def test_prepare_pretrain_has_no_other_flags():
    known = {*PRETRAIN, *PRETRAIN_ELSEWHERE}
    assert flags_of(prepare_pretrain.get_parser()) == known


# tupe-convert: files that a flag adds to OUT, or changes there
CONVERT = {
    "--checkpoint": (["--checkpoint", "DIR/other.pt"], {"model.pt"}),
    "--dict": (["--dict", "DIR/other.txt"], {"dict.txt", "model.pt"}),
    "--bpe-codes": (["--bpe-codes", "DIR/codes"], {"bpecodes", "vocabulary.json"}),
    "--label-dict": (
        ["--label-dict", "DIR/labels.txt"], {"label/dict.txt", "input0/dict.txt", "model.pt"},
    ),
    "--output-dir": (["--output-dir", "DIR/elsewhere"], {"model.pt", "dict.txt"}),
}  # fmt: skip


def test_convert(tmp_path):
    """--overwrite is the last: the folder is full by then."""
    for name, seed in (("one", 1), ("other", 2)):
        torch.manual_seed(seed)
        state, _ = their_checkpoint(num_classes=2)
        torch.save(state, tmp_path / f"{name}.pt")
    (tmp_path / "one.txt").write_text("\n".join(WORDS) + "\n")
    (tmp_path / "other.txt").write_text("\n".join(WORDS[::-1]) + "\n")
    (tmp_path / "labels.txt").write_text("yes 1\nno 1\n")
    # by which w0 to w19 are one piece each
    codes = [f"w {n}</w> 3" for n in range(10)] + ["w 1 3"] + [f"w1 {n}</w> 3" for n in range(10)]
    (tmp_path / "codes").write_text("\n".join(codes) + "\n")

    def call(out, *flags, expected=0):
        words = ["--checkpoint", "DIR/one.pt", "--dict", "DIR/one.txt", "--output-dir", out, *flags]
        words = [str(word).replace("DIR", str(tmp_path)) for word in words]
        code, text = call_program(convert.main, words)
        assert code == expected, text
        out = tmp_path / out[4:]
        files = (path for path in out.rglob("*") if path.is_file())
        return {
            str(path.relative_to(out)): (
                repr(torch.load(path)) if path.suffix == ".pt" else path.read_bytes()
            )
            for path in files
        }

    plain = call("DIR/plain")
    assert set(plain) == {"model.pt", "dict.txt"}
    for flag, (words, changed) in CONVERT.items():
        assert words[0] == flag
        if flag == "--output-dir":
            assert call("DIR/nowhere", *words) == {} and (tmp_path / "elsewhere").is_dir()
            continue
        found = call(f"DIR/out{flag}", *words)
        names = {name for name in found if found[name] != plain.get(name)}
        assert names == changed, flag
    other = ["--checkpoint", "DIR/other.pt"]
    assert call("DIR/plain", *other, expected=2) == plain
    assert call("DIR/plain", *other, "--overwrite") != plain
    # of the other kinds of vocabularies: test_convert.py; --untie: test_convert_untie.py; --anew:
    # tests/compatibility
    elsewhere = {"--gpt2-encoder-json", "--gpt2-vocab-bpe", "--sentencepiece-model"}
    others = {"--overwrite", "--untie", "--anew"}
    assert flags_of(convert.get_parser()) == {*CONVERT, *others, *elsewhere}


# tupe-export: files of OUT that a flag changes
EXPORT = {
    "--data": (["--data", "DIR/labelled"], {"config.json", "README.md"}),
    "--label-dict": (["--label-dict", "DIR/labels.txt"], {"config.json", "README.md"}),
    "--head": (["--head", "b"], {"config.json", "model.safetensors", "README.md"}),
    "--as": (["--as", "roberta"], {
        "config.json", "model.safetensors", "README.md", "configuration_tupe.py",
        "modeling_tupe.py",
    }),
    "--pooling": (["--pooling", "cls"], {"1_Pooling/config.json"}),
    "--license": (["--license", "mit"], {"README.md"}),
    "--language": (["--language", "en,de"], {"README.md"}),
    "--onnx": (["--onnx"], {"README.md"}),
    "--sample": (["--sample", "DIR/sample.txt"], {"README.md"}),
    "--python": (["--python", "sh"], set()),
}  # fmt: skip


def test_export(tmp_path, monkeypatch):
    """--overwrite is the last: the folder is full by then."""
    data = write_pretrain_dir(tmp_path / "data")
    write_pretrain_dir(tmp_path / "labelled")
    (tmp_path / "labelled" / "label").mkdir()
    (tmp_path / "labelled" / "label" / "dict.txt").write_text("good 1\nbad 1\n")
    (tmp_path / "labels.txt").write_text("yes 1\nno 1\n")
    (tmp_path / "sample.txt").write_text("The cat.\nNo fish.\n")
    write_model(tmp_path / "one", data, {"a": 2}, position_encoding="learned")
    write_model(tmp_path / "two", data, {"a": 2, "b": 2}, position_encoding="learned")
    seen = exporting_quickly(monkeypatch)

    def call(out, *flags, expected=0, model="one"):
        words = [f"DIR/{model}/checkpoint_best.pt", "--data", "DIR/data", "--output-dir", out]
        words = [str(word).replace("DIR", str(tmp_path)) for word in [*words, *flags]]
        seen.clear()
        code, text = call_program(export.main, words)
        assert code == expected, text
        out = tmp_path / out[4:]
        files = [path for path in out.rglob("*") if path.is_file()]
        return {str(path.relative_to(out)): path.read_bytes() for path in files}

    plain = call("DIR/plain/model")
    usual = dict(seen)
    for flag, (words, changed) in EXPORT.items():
        assert words[0] == flag
        base = plain
        if flag == "--head":
            call("DIR/none/model", expected=2, model="two")
            base = call("DIR/one_head/model", "--head", "a", model="two")
        found = call(f"DIR/out{flag}/model", *words, model="two" if flag == "--head" else "one")
        names = {name for name in {**found, **base} if found.get(name) != base.get(name)}
        assert names == changed, flag
        assert (seen["texts"] == ["The cat.", "No fish."]) == (flag == "--sample")
        assert (seen["python"] == "sh") == (flag == "--python")
        assert seen["trust"] == (flag != "--as") and seen["onnx"] == (flag == "--onnx")
    assert usual["trust"] and not usual["onnx"] and usual["python"] == sys.executable

    # a vocabulary that is nowhere else
    (data / "sentencepiece.bpe.model").rename(tmp_path / "pieces.model")
    call("DIR/none/model", expected=2)
    assert call("DIR/named/model", "--sentencepiece-model", "DIR/pieces.model") == plain
    (tmp_path / "pieces.model").rename(data / "sentencepiece.bpe.model")
    call("DIR/plain/model", "--license", "mit", expected=2)
    assert (
        call("DIR/plain/model", "--license", "mit", "--overwrite")["README.md"]
        != plain["README.md"]
    )
    # of the other kinds of vocabularies, and padding: test_export.py
    elsewhere = {
        "--bpe-codes", "--gpt2-encoder-json", "--gpt2-vocab-bpe", "--sentencepiece-model",
        "--padded-vocabulary", "--overwrite", "--output-dir",
    }  # fmt: skip
    assert flags_of(export.get_parser()) == {*EXPORT, *elsewhere}


# tupe-extend: what is given in place of what else is given, and what is then in the folder
EXTEND = {
    "--max-positions": ("50", lambda out: table_of(out).size(0), 51, 41),
    "--method": ("zero", lambda out: bool(table_of(out)[-1].any()), False, True),
    "--data": ("DIR/other", lambda out: (out / "report.json").read_text(), "{}", None),
    "--output-dir": ("DIR/else", lambda out: (out.parent / "else").exists(), True, False),
}


def table_of(out):
    (table,) = (
        tensor
        for name, tensor in read(out / "model.pt").tensors.items()
        if name.endswith("untied_absolute.pos.weight")
    )
    return table


@pytest.mark.parametrize("flag", EXTEND)
def test_extend(flag, tmp_path):
    value, seen, with_it, without = EXTEND[flag]
    data = write_pretrain_dir(tmp_path / "data")
    write_pretrain_dir(tmp_path / "other")
    (tmp_path / "other" / "report.json").write_text("{}")
    model = write_model(tmp_path / "model", data)

    def call(*more):
        given = {"--max-positions": 40, "--method": "tile", "--data": data,
                 "--output-dir": tmp_path / "out"}  # fmt: skip
        words = [word for pair in {**given, **dict(more)}.items() for word in pair]
        code, text = call_program(extend.main, [model, *words, "--overwrite"])
        assert code == 0, text
        return seen(tmp_path / "out")

    found = call()
    assert found == without or (without is None and found != with_it)
    # the folder of the first call, written again
    assert call((flag, value.replace("DIR", str(tmp_path)))) == with_it


def test_extend_has_no_other_flags():
    assert flags_of(extend.get_parser()) == {*EXTEND, "--overwrite"}
