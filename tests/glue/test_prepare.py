"""tupe-prepare-glue from the official files to what fairseq's own task reads."""

import json
import resource
import shutil
from pathlib import Path

import pytest
import sentencepiece
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from helpers.glue_files import prepare_glue, write_glue, write_pretrain_dir
from helpers.raw_text import contents
from helpers.running import run
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS
from tupe_fairseq.text.treatment import TextTreatment


@pytest.fixture(scope="module")
def pretrain_dir(tmp_path_factory):
    return write_pretrain_dir(tmp_path_factory.mktemp("pretrain") / "data")


@pytest.fixture(scope="module")
def official(tmp_path_factory):
    """The official folder of all nine, and what a reader must find there."""
    folder = tmp_path_factory.mktemp("official")
    return folder, write_glue(folder)


@pytest.fixture(scope="module")
def prepared(official, pretrain_dir, tmp_path_factory):
    """OUT, made by a call for two tasks and another for all; and the output of the second."""
    out = tmp_path_factory.mktemp("out")
    flags = ["--glue-dir", official[0], "--pretrain-dir", pretrain_dir, "--output-dir", out]
    run("tupe-prepare-glue", *flags, "--tasks", "MRPC,STS-B", "--workers", 1)
    return out, run("tupe-prepare-glue", *flags, "--tasks", "ALL").stdout


def load(folder, task, split):
    """A split and its dictionary as fairseq's sentence_prediction loads them."""
    config = SentencePredictionConfig(
        data=str(folder), num_classes=task.num_classes, init_token=0, separator_token=2,
        no_shuffle=True, regression_target=task.is_regression, seed=1,
    )  # fmt: skip
    fairseq_task = SentencePredictionTask.setup_task(config)
    return fairseq_task.load_dataset(split), fairseq_task.source_dictionary


def rows_of(dataset):
    return (dataset[row] for row in range(len(dataset)))


def decode(row, is_pair, dictionary, model):
    """The texts of ``<s> a </s>`` or ``<s> a </s> </s> b </s>``."""
    ids = row["net_input.src_tokens"].tolist()
    end = ids.index(2)
    assert ids[0] == 0 and ids[-1] == 2
    parts = [ids[1:end]]
    if is_pair:
        assert ids[end + 1] == 2
        parts.append(ids[end + 2 : -1])
    else:
        assert end == len(ids) - 1
    return tuple(model.decode([dictionary[i] for i in part]) for part in parts)


@pytest.mark.parametrize("name", GLUE_TASKS)
def test_fairseq_reads_back_every_row(name, official, prepared, pretrain_dir):
    task, folder = GLUE_TASKS[name], prepared[0] / name
    model = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    for split, found in official[1][name].items():
        dataset, dictionary = load(folder, task, split)
        rows = list(rows_of(dataset))
        assert len(rows) == len(found.texts)
        decoded = [decode(row, task.is_pair, dictionary, model) for row in rows]
        treat = TextTreatment().apply
        assert decoded == [tuple(map(treat, texts)) for texts in found.texts]
        if split.startswith("test"):
            assert "target" not in rows[0]
            assert (folder / f"{split}.index").read_text().split() == found.index
        elif task.is_regression:
            targets = [row["target"][0] for row in rows]
            assert targets == [float(label) / 5 for label in found.labels]
        else:
            targets = [int(row["target"]) for row in rows]
            assert targets == [task.labels.index(label) for label in found.labels]
    dictionary = (pretrain_dir / "dict.txt").read_bytes()
    for copy in ["dict.txt", "input0/dict.txt", *["input1/dict.txt"] * task.is_pair]:
        assert (folder / copy).read_bytes() == dictionary
    assert not (folder / "work").exists()


def test_report(official, prepared):
    for name, splits in official[1].items():
        report = json.loads((prepared[0] / name / "report.json").read_text())
        assert report["text_treatment"] == TextTreatment().to_dict()
        assert list(report["splits"]) == list(splits)
        for split, found in splits.items():
            values = report["splits"][split]
            assert values["rows_read"] == found.read and values["rows"] == len(found.texts)
            assert sum(values["dropped"].values()) == found.dropped
            assert values["unknown_rate"] == 0 and values["too_long"] == 0
            assert sum(values["labels"].values()) == len(found.labels)
            for label in GLUE_TASKS[name].labels if found.labels else ():
                assert values["labels"][label] == found.labels.count(label)


def test_finished_tasks_are_skipped_and_others_added(prepared):
    out, printed = prepared
    for name in GLUE_TASKS:
        skipped = f"{out / name} is already finished; skipped" in printed
        assert skipped == (name in ("MRPC", "STS-B"))


def test_rerun_changes_nothing(official, prepared, pretrain_dir):
    before = {path: path.stat().st_mtime_ns for path in prepared[0].rglob("*")}
    code, printed = prepare_glue(official[0], "ALL", pretrain_dir, prepared[0])
    assert code == 0 and printed.count("is already finished; skipped") == 9
    assert before == {path: path.stat().st_mtime_ns for path in prepared[0].rglob("*")}


def test_a_folder_of_version_0_1_gets_its_description(official, prepared, pretrain_dir, tmp_path):
    """Its report.json had none; nothing else changes."""
    shutil.copytree(prepared[0] / "RTE", tmp_path / "RTE")
    report = json.loads((tmp_path / "RTE" / "report.json").read_text())
    description = report.pop("description")
    (tmp_path / "RTE" / "report.json").write_text(json.dumps(report))
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "RTE").rglob("*.*")}
    code, printed = prepare_glue(official[0], "RTE", pretrain_dir, tmp_path)
    assert code == 0 and "RTE is already finished; skipped" in printed
    found = json.loads((tmp_path / "RTE" / "report.json").read_text())
    assert found == {**report, "description": description}
    changed = {path for path, time in times.items() if path.stat().st_mtime_ns != time}
    assert changed == {tmp_path / "RTE" / "report.json"}


@pytest.mark.parametrize(
    "changed, flags, message",
    [
        ("vocabulary", [], "made with other settings: vocabulary was"),
        ("treatment", [], "made with other settings: text treatment was"),
        ("input", [], "made with other settings: dev.tsv was"),
        ("length", ["--max-positions", "128"], "max_positions was 512 and is now 128"),
        ("pre-training length", [], "max_positions was 512 and is now 128"),
    ],
)
def test_other_settings_in_the_same_folder(
    changed, flags, message, official, prepared, pretrain_dir, tmp_path
):
    glue_dir, source = official[0], pretrain_dir
    if changed == "vocabulary":
        source = write_pretrain_dir(tmp_path / "data", vocab_size=105)
    if changed == "treatment":
        source = shutil.copytree(pretrain_dir, tmp_path / "data")
        report = {"text_treatment": TextTreatment(lowercase=True).to_dict()}
        (source / "report.json").write_text(json.dumps(report))
    if changed == "pre-training length":
        source = shutil.copytree(pretrain_dir, tmp_path / "data")
        report = json.loads((source / "report.json").read_text())
        report["settings"] = {"tokens_per_sample": 128}
        (source / "report.json").write_text(json.dumps(report))
    if changed == "input":
        glue_dir = tmp_path
        write_glue(tmp_path, ["CoLA"], rows={"train": 24, "valid": 9, "test": 6})
    code, printed = prepare_glue(glue_dir, "CoLA", source, prepared[0], *flags)
    assert code == 2 and printed.count("\n") == 1
    assert message in printed and str(prepared[0] / "CoLA") in printed


def test_text_is_treated_as_in_the_pretraining(official, tmp_path):
    source = write_pretrain_dir(tmp_path / "data", lowercase=True)
    assert prepare_glue(official[0], "STS-B", source, tmp_path / "out")[0] == 0
    folder = tmp_path / "out" / "STS-B"
    model = sentencepiece.SentencePieceProcessor(str(source / "sentencepiece.bpe.model"))
    dataset, dictionary = load(folder, GLUE_TASKS["STS-B"], "valid")
    decoded = [decode(row, True, dictionary, model) for row in rows_of(dataset)]
    lower = TextTreatment(lowercase=True).apply
    texts = official[1]["STS-B"]["valid"].texts
    assert decoded == [tuple(map(lower, pair)) for pair in texts]
    assert "café, naïve – capitals." in decoded[5]
    report = json.loads((folder / "report.json").read_text())
    assert report["text_treatment"]["lowercase"] is True


def test_broken_lines_are_counted_and_test_rows_kept(pretrain_dir, tmp_path):
    """Of MNLI, whose first test set is also missing here."""
    write_glue(tmp_path, ["MNLI"], odd=False)
    (tmp_path / "MNLI" / "test_matched.tsv").unlink()
    huge = "\t".join(["0"] * 8 + ["the sea " * 1_250_000, "nobody", "neutral", "neutral"])
    append(tmp_path / "MNLI" / "train.tsv", huge.encode(), b"1\tshort", b"x\t" * 11 + b"neutral")
    append(tmp_path / "MNLI" / "dev_matched.tsv", b"\xff\xfe\t" * 15 + b"neutral")
    append(tmp_path / "MNLI" / "test_mismatched.tsv", b"6\tshort", b"", b"8\tshort")
    out = tmp_path / "out"
    code, printed = prepare_glue(tmp_path, "MNLI", pretrain_dir, out, "--max-positions", "16")
    assert code == 0
    assert "warning: MNLI: test_matched.tsv is missing: no test split" in printed
    splits = json.loads((out / "MNLI" / "report.json").read_text())["splits"]
    assert list(splits) == ["train", "valid", "valid1", "test1"]
    train = splits["train"]
    assert train["rows_read"] == 27 and train["rows"] == 26
    assert train["dropped"] == {"fewer than 12 fields": 1}
    assert train["warnings"] == {"cut at 100000 characters": 1}
    assert splits["valid"]["warnings"] == {"invalid UTF-8": 1}
    assert splits["test1"]["rows"] == 9 and not splits["test1"]["dropped"]
    assert splits["test1"]["warnings"]["fewer than 10 fields"] == 3
    # the blank row's number is its place in the file
    assert (out / "MNLI" / "test1.index").read_text().split() == list("012345678")
    dataset, _ = load(out / "MNLI", GLUE_TASKS["MNLI"], "train")
    lengths = [len(row["net_input.src_tokens"]) for row in rows_of(dataset)]
    assert train["too_long"] == sum(length > 16 for length in lengths)
    assert 1 <= train["too_long"] < 26
    dataset, _ = load(out / "MNLI", GLUE_TASKS["MNLI"], "test1")
    assert dataset[8]["net_input.src_tokens"].tolist() == [0, 2, 2, 2]


def test_lengths_and_unknown_pieces_are_counted(pretrain_dir, tmp_path):
    """<s> a </s> </s> b </s>; SentencePiece itself counts the pieces."""
    write_glue(tmp_path, ["RTE"], odd=False)
    pairs = [("nobody " * (n % 5) + "cat" * (n % 2), "\u9f8d" * (n % 3)) for n in range(24)]
    lines = [f"{row}\t{a}\t{b}\tentailment" for row, (a, b) in enumerate(pairs)]
    lines[-1] = lines[-1].replace("entailment", "not_entailment")
    header = "index\tsentence1\tsentence2\tlabel"
    (tmp_path / "RTE" / "train.tsv").write_text("\n".join([header, *lines]) + "\n", "utf-8")
    model = sentencepiece.SentencePieceProcessor(str(pretrain_dir / "sentencepiece.bpe.model"))
    ids = [[model.encode(text) for text in pair] for pair in pairs]
    lengths = sorted(len(a) + len(b) + 4 for a, b in ids)
    # one row fits exactly, so that a token more or less changes the number of those too long
    most = lengths[len(lengths) // 2]
    out = tmp_path / "out"
    code, printed = prepare_glue(tmp_path, "RTE", pretrain_dir, out, "--max-positions", most)
    assert code == 0, printed
    train = json.loads((out / "RTE" / "report.json").read_text())["splits"]["train"]
    assert {most - 1, most, most + 1} <= set(lengths)
    assert train["too_long"] == sum(length > most for length in lengths)
    pieces = [piece for pair in ids for part in pair for piece in part]
    assert train["unknown_rate"] == pieces.count(3) / len(pieces) > 0


def append(path, *lines):
    with open(path, "ab") as file:
        file.writelines(line + b"\n" for line in lines)


def test_no_space_left(pretrain_dir, tmp_path):
    """Stopped first amid the lengths of the index, then amid the places that follow them."""
    write_glue(tmp_path, ["STS-B"], odd=False)
    append(tmp_path / "STS-B" / "train.tsv", *[b"x\t" * 7 + b"a\ta\t2.5"] * 9000)
    out, hard = tmp_path / "out", resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    for limit in (30_000, 100_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            code, printed = prepare_glue(tmp_path, "STS-B", pretrain_dir, out)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert code == 2 and printed.count("error:") == 1, printed
        assert "File too large" in printed and "input0/train.idx" in printed, printed
        assert not (out / "STS-B" / "report.json").exists()
        assert "prepared" not in (out / "STS-B" / "steps.json").read_text()
    code, printed = prepare_glue(tmp_path, "STS-B", pretrain_dir, out)
    assert code == 0 and "skipped" not in printed
    assert len(load(out / "STS-B", GLUE_TASKS["STS-B"], "train")[0]) == 9024


@pytest.fixture(scope="module")
def words(shared, tmp_path_factory):
    """As pretrain_dir, of so many real sentences that the official rows are short."""
    lines = (shared / "data" / "glue" / "SST-2" / "train.tsv").read_text("utf-8").splitlines()
    texts = [line.partition("\t")[0] for line in lines[1::3]]
    return write_pretrain_dir(
        tmp_path_factory.mktemp("words") / "data", vocab_size=10_000, further=texts
    )


@pytest.mark.parametrize(
    "name, counts",
    [
        ("CoLA", (8551, 1043, 1063)),
        pytest.param("SST-2", (67349, 872, 1821), marks=pytest.mark.thorough),
        ("STS-B", (5749, 1500, 1379)),
    ],
)
def test_official_row_counts(name, counts, shared, words, tmp_path):
    glue_dir: Path = shared / "data" / "glue"
    code, printed = prepare_glue(glue_dir, name, words, tmp_path)
    assert code == 0
    report = json.loads((tmp_path / name / "report.json").read_text())
    for split, count in zip(("train", "valid", "test"), counts):
        values = report["splits"][split]
        assert values["rows_read"] == values["rows"] == count
        dataset, _ = load(tmp_path / name, GLUE_TASKS[name], split)
        assert len(dataset) == count
        assert ("target" in dataset[0]) == (split != "test")
    index = (tmp_path / name / "test.index").read_text().split()
    assert index == [str(number) for number in range(counts[2])]


@pytest.mark.parametrize("workers", [2, 4])
def test_workers_change_no_byte(official, pretrain_dir, tmp_path, workers, monkeypatch):
    # so that there is work for several
    monkeypatch.setattr("tupe_fairseq.labelled.encode_rows._BATCH", 5)
    written = []
    for number in (1, workers):
        out = tmp_path / str(number)
        code, printed = prepare_glue(
            official[0], "STS-B", pretrain_dir, out, "--workers", str(number)
        )
        assert code == 0, printed
        written.append(contents(out))
    assert written[0] == written[1] and len(written[0]) > 10
