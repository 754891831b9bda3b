"""--config: what a file of flags says is what the command line would say."""

import argparse
import re

import pytest

from helpers.drawn import drawn
from helpers.drawn import strategies as st
from helpers.running import REPO, call_program
from tupe_fairseq.command_flags import compare
from tupe_fairseq.command_flags.config_flag import add_config_flag
from tupe_fairseq.commands.compare import main
from tupe_fairseq.commands.program import parsed

WHOLE = """# of a study
data: data-bin
output-dir: out
schemes:
  - tupe --rel-pos
  - alibi
updates: 6000
seeds: [1, 2, 3]
lr: 1e-3   # which YAML's own rules take for a text
train-flags: --dropout 0 --attention-dropout 0
cpu: true
fp16: false
"""
WORDS = [
    "data-bin", "--output-dir", "out", "--schemes", "tupe --rel-pos; alibi", "--updates", "6000",
    "--seeds", "1,2,3", "--lr", "1e-3", "--train-flags=--dropout 0 --attention-dropout 0", "--cpu",
]  # fmt: skip


def read(*words):
    """The flags of tupe-compare but for --config itself."""
    found = vars(parsed(compare.get_parser(), [str(word) for word in words]))
    del found["config"]
    return found


def refused(path):
    """What is printed at the end; exit code 2."""
    code, text = call_program(lambda words: parsed(compare.get_parser(), words), ["--config", path])
    assert code == 2 and "Traceback" not in text, text
    return text.splitlines()[-1]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "study.yaml"


def test_as_on_the_command_line(file):
    file.write_text(WHOLE)
    assert read("--config", file) == read(*WORDS)


def test_the_example_of_the_readme(file, tmp_path):
    readme = (REPO / "examples" / "positions" / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    file.write_text(block)
    data = tmp_path / "bin"
    data.mkdir()
    for name in ("dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx"):
        (data / name).write_text("")
    code, text = call_program(main, [data, "--config", file, "--dry-run"])
    # three rates for each scheme
    assert code == 0 and text.count("fairseq-train") == 12, text
    assert text.endswith("then 16 runs, each at the best rate of its scheme\n")


@pytest.mark.parametrize(
    "before, after",
    [(["other-data", "--lr", "0.5"], []), ([], ["--lr", "0.5", "other-data"])],
    ids=["before", "after"],
)
def test_the_command_line_wins(before, after, file):
    file.write_text(WHOLE)
    # argparse takes the beginning of a flag for it
    found = read(*before, f"--conf={file}", *after)
    assert found == {**read(*WORDS), "lr": 0.5, "data": "other-data"}


def test_what_is_required_may_be_in_either_place(file):
    file.write_text("schemes: tupe\nupdates: 8\n")
    assert read("data-bin", "--config", file, "--output-dir", "out")["updates"] == 8
    assert "the following arguments are required: DATA, --output-dir" in refused(file)


@pytest.mark.parametrize(
    "content, message",
    [
        ("", " has no line of the form 'flag: value'"),
        ("- data\n", " has no line of the form 'flag: value'"),
        ("data: a\nupdats: 3\n", ", line 2: updats is not a flag of tupe-compare; did you mean up"),
        ("output_dir: a\n", ", line 1: output_dir is not a flag of tupe-compare; did you mean out"),
        ("zzz: a\n", ", line 1: zzz is not a flag of tupe-compare; flags are data, output-dir, "),
        ("config: a\n", ", line 1: config is not a flag of tupe-compare; "),
        ("help: true\n", ", line 1: help is not a flag of tupe-compare; "),
        ("lr: 1\ndata: a\nlr: 2\n", ", line 3: lr is there twice"),
        ("updates: 2.5\n", ", line 1: updates: invalid int value: '2.5'"),
        ("updates:\n", ", line 1: updates: invalid int value: ''"),
        ("updates: [1]\n", ", line 1: updates takes one value, not a list"),
        ("cpu: 1\n", ", line 1: cpu: a switch is true or false, not '1'"),
        ("cpu: [true]\n", ", line 1: cpu takes one value, not a list"),
        ("seeds: [1, [2]]\n", ", line 1: a line is 'flag: value', or 'flag: [value, ...]'"),
        ("updates: {a: 1}\n", ", line 1: a line is 'flag: value', or 'flag: [value, ...]'"),
        ("? [a]\n: 1\n", ", line 1: a line is 'flag: value', or 'flag: [value, ...]'"),
        ("data: !!python/object/apply:os.getcwd []\n", ", line 1: a line is "),
        ("data: !path a\n", ", line 1: a line is 'flag: value', or 'flag: [value, ...]', without"),
        ("data: &a [*a]\n", ", line 1: a line is "),
        ("data: 'a\n", " is not a YAML file: while scanning a quoted scalar"),
        ("data: a\n---\ndata: b\n", " is not a YAML file: expected a single document"),
        ("data: \x00\n", " is not a YAML file: unacceptable character"),
        ("[" * 999, " is not a YAML file: "),
    ],
)  # fmt: skip
def test_what_is_refused(content, message, file):
    file.write_text(content)
    assert f"tupe-compare: error: --config {file}{message}" in refused(file)


def test_no_text(file):
    file.write_bytes("lr: 1\n".encode("utf-16"))
    assert f"--config {file} is not a YAML file: 'utf-8' codec can't decode" in refused(file)


def test_no_file(tmp_path):
    assert refused(tmp_path / "absent.yaml").endswith(
        f"No such file or directory: '{tmp_path}/absent.yaml'"
    )


def test_choices_hold_for_what_is_in_the_file(file):
    parser = argparse.ArgumentParser(prog="tupe-x")
    parser.add_argument("--kind", choices=["a", "b"])
    add_config_flag(parser, {})
    file.write_text("kind: c\n")
    code, text = call_program(lambda words: parsed(parser, words), ["--config", file])
    assert code == 2 and f"{file}, line 1: kind: invalid choice: 'c' (choose from " in text


@drawn(30, text=st.text(alphabet="lrdat: -[]{}&*!'\"\n1e.,#", max_size=30))
def test_any_text(text, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "drawn.yaml"
    path.write_text(text)
    line = refused(path)
    assert f"--config {path}" in line or "the following arguments are required" in line
