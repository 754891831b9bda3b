"""What tupe-prepare-glue refuses: exit code 2, one line, and no folder that looks finished."""

import json
import os

import pytest

from helpers.glue_files import prepare_glue, write_glue, write_pretrain_dir


@pytest.fixture
def case(tmp_path):
    """Sound input, for a test to break."""
    write_glue(tmp_path / "official", ["RTE"], odd=False)
    write_pretrain_dir(tmp_path / "data")
    return tmp_path


def refused(case, *flags, tasks="RTE", **folders):
    folders = {"official": "official", "data": "data", **folders}
    code, printed = prepare_glue(
        case / folders["official"], tasks, case / folders["data"], case / "out", *flags
    )
    assert code == 2
    assert printed.count("\n") == 1 and printed.startswith("tupe-prepare-glue: error: ")
    assert not (case / "out" / "RTE" / "report.json").exists()
    assert not (case / "out" / "RTE" / "steps.json").exists()
    return printed


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--max-positions", "5"], "--max-positions (5) is below 6"),
        (["--workers", "0"], "--workers (0) must be at least 1"),
        (["--tasks", "RTE,rte"], "no GLUE task 'rte'; the tasks are CoLA"),
        (["--tasks", ","], "--tasks names no task; give ALL or some of CoLA"),
        (["--tasks", "ALL"], "CoLA is missing: the official folder of task CoLA"),
        (["--glue-dir", "nowhere"], "--glue-dir nowhere is not a folder"),
    ],
    ids=lambda value: value[0] + value[1] if isinstance(value, list) else "",
)
def test_arguments(flags, message, case):
    assert message in refused(case, *flags)


@pytest.mark.parametrize("name", ["dict.txt", "sentencepiece.bpe.model", "report.json"])
def test_pretrain_dir_lacks_a_file(name, case):
    (case / "data" / name).unlink()
    printed = refused(case)
    assert f"{name} is missing" in printed and "made by tupe-prepare-pretrain" in printed


SOUND = (
    '{"text_treatment": {"unicode": "NFC", "lowercase": false},'
    ' "settings": {"tokens_per_sample": %s}}'
)


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("report.json", "{", "report.json is not a JSON file"),
        ("report.json", "null", "does not say how the text was treated"),
        ("report.json", "[" * 100_000, "is nested too deep"),
        ("report.json", '{"text_treatment": [1]}', "does not say how the text was treated"),
        ("report.json", SOUND % '"x"', "settings.tokens_per_sample is 'x', not a whole number"),
        ("report.json", SOUND % "2.5", "settings.tokens_per_sample is 2.5, not a whole number"),
        ("report.json", SOUND % "-1", "settings.tokens_per_sample is -1, not a whole number"),
        ("report.json", "[]", "does not say how the text was treated"),
        ("report.json", '{"text_treatment": {"unicode": "NFD"}}', "is unknown to this version"),
        ("sentencepiece.bpe.model", "text", "is not a SentencePiece model"),
        ("dict.txt", b"\xff\n", "dict.txt is not a text file in UTF-8"),
        ("dict.txt", "", "does not belong to"),
        ("sentencepiece.bpe.model", "", "is not a SentencePiece model"),
        ("sentencepiece.bpe.model", b"\n\x0e\n\x05<unk>\x15\0\0\0\0", "is not a SentencePiece"),
        ("sentencepiece.bpe.model", b"\n\x07\n\x05<unk", "is not a SentencePiece model"),
        ("dict.txt", "a 1\n".encode("utf-16"), "dict.txt is not a text file in UTF-8"),
        ("dict.txt", "a 1\nb -5\n", "dict.txt, line 2: 'b -5' is not a word and its count"),
        ("dict.txt", "a 1 #fairseq:overwrite\n", "line 1: 'a 1 #fairseq:overwrite' is not a word"),
        ("dict.txt", "a 1\n\nb 1\n", "dict.txt, line 2: '' is not a word and its count"),
        ("dict.txt", "a 1\nb\n", "dict.txt, line 2: 'b' is not a word and its count"),
        ("dict.txt", "a 1e3\n", "dict.txt, line 1: 'a 1e3' is not a word and its count"),
        ("dict.txt", "a 1\r\n", "does not belong to"),
    ],
)
def test_pretrain_dir_is_broken(name, content, message, case):
    content = content if isinstance(content, bytes) else content.encode()
    (case / "data" / name).write_bytes(content)
    assert message in refused(case)


@pytest.mark.parametrize("change", ["one-less", "one-more", "one-twice", "another"])
def test_dictionary_of_another_model(change, case):
    path = case / "data" / "dict.txt"
    words = path.read_text(encoding="utf-8").splitlines()
    changed = {
        "one-less": words[1:],
        "one-more": [*words, "extra 1"],
        "one-twice": [*words, words[0]],
        "another": [*words[:-1], "extra 1"],
    }[change]
    path.write_text("\n".join(changed) + "\n", encoding="utf-8")
    printed = refused(case)
    if change == "one-twice":
        assert f"dict.txt lists {words[0].split()[0]!r} twice" in printed
        return
    assert f"dict.txt does not belong to {case / 'data' / 'sentencepiece.bpe.model'}" in printed
    assert f"it lists {len(changed)} words, the model {len(words)}" in printed


@pytest.mark.parametrize("name", ["train.tsv", "dev.tsv"])
def test_task_folder_lacks_a_split(name, case):
    (case / "official" / "RTE" / name).unlink()
    assert f"{name} is missing: task RTE lacks its" in refused(case)


def without(path, label):
    """Take all rows with this label out of a file."""
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if label not in line) + "\n")


def test_label_that_train_lacks(case):
    without(case / "official" / "RTE" / "train.tsv", "not_entailment")
    printed = refused(case)
    assert "dev.tsv has the label not_entailment, which does not occur in" in printed


def test_broken_official_file_names_file_and_line(case):
    """And once mended, it is taken: a refusal leaves nothing behind."""
    path = case / "official" / "RTE" / "dev.tsv"
    sound = path.read_text()
    path.write_text(sound + "8\tone\ttwo\tmaybe\n")
    assert f"{path}, line 10: unknown label 'maybe'" in refused(case)
    path.write_text(sound)
    for name in ("train.tsv", "dev.tsv"):
        without(case / "official" / "RTE" / name, "not_entailment")
    code, printed = prepare_glue(case / "official", "RTE", case / "data", case / "out")
    assert code == 0
    # a class that does not occur is not an error, and keeps its id
    assert "warning: RTE: class not_entailment occurs neither in train nor in dev" in printed
    labels = (case / "out" / "RTE" / "label" / "dict.txt").read_text().split()
    assert labels[0::2] == ["entailment", "not_entailment"]


def test_folder_of_something_else(case):
    (case / "out" / "RTE").mkdir(parents=True)
    (case / "out" / "RTE" / "notes.txt").write_text("mine")
    assert "RTE contains other files" in refused(case)


def test_official_folder_as_output(case):
    code, printed = prepare_glue(case / "official", "RTE", case / "data", case / "official")
    assert code == 2 and "contains other files" in printed


def test_a_vocabulary_of_another_language_is_warned_of(case):
    path = case / "official" / "RTE" / "dev.tsv"
    lines = path.read_text().splitlines()
    fields = lines[1].split("\t")
    lines[1] = "\t".join([fields[0], "\u4e2d \u6587 " * 50, *fields[2:]])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    code, printed = prepare_glue(case / "official", "RTE", case / "data", case / "out")
    assert code == 0 and printed.count("are unknown") == 1
    assert "% of the pieces of valid are unknown: characters that the vocabulary lacks" in printed


def test_a_folder_in_use(case):
    fcntl = pytest.importorskip("fcntl")
    (case / "out" / "RTE").mkdir(parents=True)
    handle = os.open(case / "out" / "RTE", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert f"another process is using {case / 'out' / 'RTE'}; wait for it" in refused(case)
    os.close(handle)
    assert prepare_glue(case / "official", "RTE", case / "data", case / "out")[0] == 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    write_glue(folder / "official", ["RTE"], odd=False)
    write_pretrain_dir(folder / "data")
    assert prepare_glue(folder / "official", "RTE", folder / "data", folder / "out")[0] == 0
    return folder


def mutated(content, *path, value):
    """The JSON with another value, or without it if the value is Ellipsis."""
    content = inner = json.loads(content)
    for name in path[:-1]:
        inner = inner[name]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(content)


BROKEN = ["null", "[]", "7", '"text"', "[" * 100_000, "", "{}"]


@pytest.mark.parametrize("name", ["report.json", "steps.json"])
@pytest.mark.parametrize("content", BROKEN, ids=lambda content: content[:8])
def test_a_broken_record(name, content, finished):
    check_broken_record(finished, name, lambda _: content)


@pytest.mark.parametrize(
    "name, path, value",
    [
        ("report.json", ["splits"], ...),
        ("report.json", ["splits"], []),
        ("report.json", ["splits", "train"], None),
        ("report.json", ["splits", "train", "rows"], "x"),
        ("report.json", ["splits", "valid", "rows_read"], 2.5),
        ("report.json", ["splits", "train", "unknown_rate"], float("nan")),
        ("report.json", ["splits", "test", "labels"], [1]),
        ("report.json", ["splits", "train", "dropped"], {"a": -1}),
        ("report.json", ["warnings"], [3]),
        ("report.json", ["max_positions"], True),
        ("steps.json", ["finished"], None),
        ("steps.json", ["finished", "prepared"], "yes"),
        ("steps.json", ["settings"], 1),
    ],
)
def test_a_wrong_value_in_a_record(name, path, value, finished):
    check_broken_record(finished, name, lambda sound: mutated(sound, *path, value=value))


def check_broken_record(finished, name, change):
    path = finished / "out" / "RTE" / name
    sound = path.read_text()
    path.write_text(change(sound))
    try:
        code, printed = prepare_glue(
            finished / "official", "RTE", finished / "data", path.parents[1]
        )
    finally:
        path.write_text(sound)
    assert code == 2 and f"error: {path} " in printed.splitlines()[-1]
