"""How commands start: help and refusals import no library and name what is wrong; tupe-doctor."""

import importlib
import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys

import pytest

import tupe_fairseq
from helpers.running import BIN, ENV, REPO, USER_DIR, call_program, interrupt
from tupe_fairseq.checkpoint.extend import extend_checkpoint
from tupe_fairseq.checkpoint.options import checkpoint
from tupe_fairseq.cli import doctor, extras
from tupe_fairseq.cli.extras import EXTRA_OF
from tupe_fairseq.cli.main import COMMANDS
from tupe_fairseq.cli.parser import Parser
from tupe_fairseq.data.tokenizer import Tokenizer
from tupe_fairseq.export import convert_checkpoint, export_model
from tupe_fairseq.flags import renamed, writable
from tupe_fairseq.options import FIXED_OPTIONS, POSITION_OPTIONS, flag
from tupe_fairseq.prepare import TaskOptions, prepare_glue, prepare_pretraining, prepare_task
from tupe_fairseq.runs.process import parse_training

#: empty files, which only have to exist
FILES = (
    "bin/dict.txt", "bin/train.bin", "bin/train.idx", "bin/valid.bin", "bin/valid.idx",
    "dict.txt", "glue/CoLA/dev.tsv", "glue/CoLA/train.tsv", "pretrain/dict.txt",
    "pretrain/report.json", "pretrain/sentencepiece.bpe.model", "rows.csv",
    "runs/checkpoint_last.pt", "task/input0/dict.txt", "task/report.json", "text.txt", "there.pt",
    "rows/model.safetensors",
)  # fmt: skip
#: calls of each command with a wrong flag, file or pair of flags, and what the error must name
WRONG = [
    ("compare bin --output-dir out --schemes nope --updates 9", "nope"),
    ("compare absent --output-dir out --schemes tupe --updates 9", "absent"),
    ("compare bin --output-dir out --schemes tupe --updates 9 --gpus 0 --cpu", "--gpus"),
    ("compare bin --output-dir out --schemes tupe --updates 9 --warmup-updates 10", "(9)"),
    ("compare @absent.args", "absent.args"),
    ("convert roberta-base --output-dir out", "hf download roberta-base --local-dir"),
    ("convert rows/model.safetensors --output-dir out", "give its folder, rows,"),
    ("convert there.pt --output-dir out --bpe-codes=c", "--bpe-codes is gone: split"),
    ("convert rows --output-dir out", "model.safetensors, but no config.json"),
    ("encode there.pt rows.csv --output-file out.txt", "out.txt"),
    ("encode absent rows.csv --output-file out.npy", "absent"),
    ("export absent --output-dir out", "absent"),
    ("extend there.pt --max-positions 65537 --output-dir out", "65537"),
    ("extend absent --max-positions 64 --output-dir out", "absent"),
    ("finetune there.pt --data task --output-dir out --cpu --fp16", "--fp16"),
    ("finetune absent --data task --output-dir out", "absent"),
    ("options --arch roberta_base", "'roberta_base'"),
    ("plot there.pt --output-dir out --dpi 1", "--dpi"),
    ("plot absent --output-dir out", "absent"),
    ("predict there.pt rows.csv --output-file out.txt", "out.txt"),
    ("predict there.pt absent.csv", "absent.csv"),
    ("prepare-glue --glue-dir glue --tasks RTE --vocabulary pretrain --output-dir out", "RTE"),
    ("prepare-pretrain --input text.txt --output-dir out --valid-share 0", "--valid-share"),
    ("prepare-pretrain --input text.txt --output-dir out --character-coverage 0.9", "0.98 to 1"),
    ("prepare-pretrain --input text.txt --output-dir out --shards 2", "--shards is gone: prepare"),
    ("prepare-pretrain --input absent --output-dir out", "absent"),
    ("prepare-task --kind regression --train rows.csv --vocabulary pretrain --output-dir out "
     "--txt a", "unrecognized arguments: --txt a; did you mean --text?"),
    ("prepare-task --kind tagging --train no.csv --vocabulary pretrain --output-dir out", "no.c"),
    ("score there.pt --pairs-per-file 3", "--pairs-per-file"),
    ("score absent", "absent"),
    # a folder without a checkpoint_best.pt
    ("convert runs --output-dir out", "give one of its files: checkpoint_last.pt"),
    ("predict runs rows.csv --output-file out.csv", "give one of its files: checkpoint_last.pt"),
]  # fmt: skip
MODEL = REPO / "examples" / "models" / "tupe-r-mini-10m"
ROWS = REPO / "examples" / "tasks" / "films.csv"
CALLS = """
import contextlib, io, json, sys
from tupe_fairseq.cli import main as cli

said = []
for name, *words in json.load(sys.stdin):
    before, printed = set(sys.modules), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = cli.run(name, words)
    slow = {"torch", "numpy", "fairseq", "matplotlib", "transformers"}
    said.append([code, printed.getvalue(), sorted(slow & ({*sys.modules} - before))])
json.dump(said, sys.stdout)
"""


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """Exit code, output and imported libraries of each call, one after the other in one process."""
    folder = tmp_path_factory.mktemp("files")
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    calls = [*(call for call, _ in WRONG), *(f"{name} --help" for name in COMMANDS)]
    environ = {**ENV, "PYTHONPATH": str(REPO), "COLUMNS": "80"}
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", CALLS], env=environ,
        input=json.dumps([call.split() for call in calls]), stdout=subprocess.PIPE, text=True,
        check=True, cwd=folder,
    )  # fmt: skip
    assert not (folder / "out").exists()
    return dict(zip(calls, json.loads(process.stdout)))


@pytest.mark.parametrize("call, named", WRONG)
def test_refused_at_once_with_a_line_that_names_it(call, named, called):
    code, text, libraries = called[call]
    (line,) = text.splitlines()
    assert (code, libraries) == (2, [])
    assert line.startswith(f"tupe-{call.split()[0]}: error: ") and named in line


def test_a_folder_is_its_best_checkpoint(tmp_path):
    with pytest.raises(
        OSError,
        match="no checkpoint_best.pt and no model.pt; give the --save-dir",
    ):
        checkpoint(str(tmp_path))
    for name in ("checkpoint_10.pt", "checkpoint_2_300.pt", "checkpoint_2_1000.pt"):
        (tmp_path / name).touch()
    with pytest.raises(OSError, match="_2_300.pt, .*_2_1000.pt, .*_10.pt"):
        checkpoint(str(tmp_path))
    (tmp_path / "best").mkdir()  # of a task's folder
    for name in ("best/checkpoint_best.pt", "model.pt", "checkpoint_best.pt"):
        (tmp_path / name).touch()
        assert checkpoint(str(tmp_path)) == str(tmp_path / name)
    assert checkpoint(str(tmp_path / "model.pt")) == str(tmp_path / "model.pt")


def test_a_folder_without_permission_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root can write everywhere
    with pytest.raises(ValueError, match=f"{tmp_path} is not writable"):
        writable(str(tmp_path / "out"))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_its_example(command, called):
    code, text, libraries = called[f"{command} --help"]
    assert code == 0 and text.startswith(f"usage: tupe-{command} ") and libraries == []
    assert max(map(len, text.splitlines())) <= 80, text
    assert len(text.split("\n\n")[0].splitlines()) <= 2, text  # the usage
    module = importlib.import_module(f"tupe_fairseq.cli.{command.replace('-', '_')}")
    parser = Parser(module.Options, f"tupe-{command}")
    # defaults are written in one way, by flags.option
    texts = [action.help.split("; default ", 1)[0] for action in parser._actions]
    assert "default" not in "".join(texts)
    example = re.sub(r"\\\n", " ", re.split(r"examples?\b[^:]*:", parser.epilog)[1])
    program, *words = shlex.split(example.strip().splitlines()[0])
    assert program == f"tupe-{command}"
    known = {flag for action in parser._actions for flag in action.option_strings}
    assert {word.split("=")[0] for word in words if word.startswith("--")} <= known
    required = [action for action in parser._actions if action.required and action.option_strings]
    assert all(set(action.option_strings) & set(words) for action in required)


@pytest.mark.parametrize(
    "call, named",
    [
        (
            lambda out: prepare_task(ROWS, out, vocabulary=MODEL, kind="x"),
            "--kind: a task of kind 'x', none of",
        ),
        (
            lambda out: prepare_glue(MODEL, out, vocabulary=MODEL, tasks="cola"),
            "--tasks: 'cola' is",
        ),
        (
            lambda out: prepare_glue(MODEL, out, vocabulary=MODEL, tasks=[]),
            "--tasks: it is empty",
        ),
        (
            lambda out: prepare_pretraining(__file__, out, valid_share=1.5),
            "--valid-share: 1.5",
        ),
        (lambda out: convert_checkpoint("absent.pt", out), "absent.pt does not exist"),
        (
            lambda out: export_model(__file__, out, pooling="max"),
            "'max' is none of mean",
        ),
        (lambda out: Tokenizer("bert", [], out, {}), "the vocabulary 'bert' is none of gpt2, "),
        (lambda out: extend_checkpoint("absent.pt", out, max_positions=9), "absent.pt does not"),
    ],
)
def test_a_function_refuses_what_its_command_would(call, named, tmp_path):
    with pytest.raises((OSError, ValueError), match=named):
        call(str(tmp_path / "out"))
    assert os.listdir(tmp_path) == []


def test_none_stands_for_the_default():
    words = {"vocabulary": MODEL, "kind": "regression"}
    options = TaskOptions(ROWS, "out", workers=None, overwrite=None, **words)
    assert options == TaskOptions(ROWS, "out", **words) and options.overwrite is False


#: command lines of earlier versions, and the same today
OLD = {
    "convert --checkpoint there.pt --dict dict.txt --output-dir out":
        "convert there.pt --dictionary dict.txt --output-dir out",
    "export there.pt --as=roberta --output-dir out":
        "export there.pt --model-type=roberta --output-dir out",
    "finetune --data task --checkpoint there.pt --output-dir out --train-flags=--bf16":
        "finetune there.pt --data task --output-dir out -- --bf16",
    "prepare-glue --glue-dir glue --pretrain-dir pretrain --output-dir out":
        "prepare-glue --glue-dir glue --vocabulary pretrain --output-dir out",
    "prepare-pretrain --input text.txt --output-dir out --valid-fraction 0.1":
        "prepare-pretrain --input text.txt --output-dir out --valid-share 0.1",
    "score there.pt --input=text.txt": "score there.pt text.txt",
    "score --input text.txt there.pt --cpu": "score there.pt text.txt --cpu",
    "score there.pt --pairs text.txt --results out": "score there.pt --pairs text.txt --report out",
}  # fmt: skip


@pytest.mark.parametrize("old", OLD)
def test_the_flags_of_earlier_versions_still_work(old, tmp_path, monkeypatch):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)

    def options(line):
        name, *words = line.split()
        module = importlib.import_module(f"tupe_fairseq.cli.{name.replace('-', '_')}")
        return Parser(module.Options, f"tupe-{name}").read(words)

    assert options(old) == options(OLD[old])
    assert renamed({"pretrain_dir": 1, "input": 2}) == {"vocabulary": 1, "input": 2}
    with pytest.raises(TypeError, match="two values for 'vocabulary', one by its earlier name"):
        prepare_task(ROWS, "out", pretrain_dir=MODEL, vocabulary=MODEL, kind="regression")


def test_ways_to_start():
    """tupe-options, tupe options and python -m tupe_fairseq options are the same."""

    def said(*words):
        done = subprocess.run(words, capture_output=True, text=True, env=ENV)
        return done.returncode, done.stdout or done.stderr

    ways = [[BIN / "tupe-options"], [BIN / "tupe", "options"]]
    ways.append([sys.executable, "-m", "tupe_fairseq", "options"])
    (helped,) = {said(*way, "--help") for way in ways}
    assert helped[0] == 0
    text = (REPO / "pyproject.toml").read_text()
    scripts = re.findall(r'^tupe-([\w-]+) = "tupe_fairseq\.cli\.main:main"', text, re.M)
    assert sorted(scripts) == sorted(COMMANDS)
    assert said(BIN / "tupe", "--version") == (0, f"tupe_fairseq {tupe_fairseq.__version__}\n")
    code, text = said(BIN / "tupe", "prepare-pretrian")
    assert code == 2 and "no command 'prepare-pretrian'; run tupe for a list" in text


def test_a_traceback_on_request(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("<html>")
    words = ["--input", tmp_path / "a", "--output-dir", tmp_path / "out"]
    assert "Traceback" not in call_program("prepare-pretrain", words)[1]
    monkeypatch.setenv("TUPE_TRACEBACK", "1")
    assert "Traceback" in call_program("prepare-pretrain", words)[1]


WITHOUT_FAIRSEQ = """
import sys
sys.modules["fairseq"] = None
import tupe_fairseq
assert "torch" not in sys.modules
from tupe_fairseq import *
TupeEncoder(TupeConfig()); tupe_fairseq.position.CATALOGUE
import inspect
print(*dict(inspect.getmembers(tupe_fairseq)))
assert not hasattr(tupe_fairseq, "TupeRobertaModel")
try:
    tupe_fairseq.TupeRobertaModel
except AttributeError as error:
    print(error)
from tupe_fairseq import TupeRobertaModel
"""


def test_the_package_without_fairseq():
    """Tab completion, import * and inspect skip what needs fairseq; using it names the extra."""
    said = subprocess.run(
        [sys.executable, "-c", WITHOUT_FAIRSEQ], capture_output=True, text=True, env=ENV
    )
    assert said.stdout.split()[:3] == ["TupeConfig", "TupeEncoder", "TupePositionBias"]
    assert "TupeRobertaModel" not in said.stdout and "TupeRobertaModel" in dir(tupe_fairseq)
    for last in (said.stdout.splitlines()[-1], said.stderr.splitlines()[-1]):
        assert "fairseq is not installed; pip install 'tupe_fairseq[fairseq]'" in last


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    for name in ("dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx"):
        (tmp_path / name).touch()
    monkeypatch.setitem(sys.modules, "scipy", None)
    words = [tmp_path, "--output-dir", tmp_path / "out", "--schemes", "tupe", "--updates", 1]
    code, text = call_program("compare", [*words, "--cpu"])
    expected = "tupe-compare: error: scipy is not installed; pip install 'tupe_fairseq[data]'"
    assert code == 2 and text.startswith(expected)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    words = ["--input", tmp_path / "dict.txt", "--output-dir", tmp_path / "out"]
    code, text = call_program("prepare-pretrain", words)
    assert code == 2 and "sentencepiece is not installed; pip install" in text
    assert not (tmp_path / "out").exists()  # nothing was done
    section = (REPO / "pyproject.toml").read_text().split("[project.optional-dependencies]")[1]
    assert {f"{extra} = [" in section for extra in EXTRA_OF.values()} == {True}


def test_python_3_13_is_told_the_commands_that_install_fairseq_there(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    advice = runpy.run_path(extras.__file__)["advice"]
    alone, both = advice("fairseq"), advice("fairseq", "tqdm")
    assert "fairseq-fixed==" in alone and "fairseq-fixed==" in both
    assert "[fairseq" not in alone + both and "'tupe_fairseq[data]'" in both
    commands = re.search(
        r"^```bash\n(pip install torch numpy cython .*?)\n```$",
        (REPO / "README.md").read_text(),
        re.M | re.S,
    )[1]
    shown = commands.replace(" -c scripts/constraints.txt", "").replace('"', "'").split("\n")
    assert " && ".join(shown) in alone


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_workers_end_with_an_interrupted_command(number, code, tmp_path):
    line = " ".join(["one", "two", "three", "four"] * 5)
    (tmp_path / "text.txt").write_text("".join(f"{line} {n}.\n" for n in range(400_000)))
    command = [
        "tupe-prepare-pretrain", "--input", tmp_path / "text.txt", "--output-dir",
        tmp_path / "out", "--workers", 2,
    ]  # fmt: skip
    is_ctrl_c = number == signal.SIGINT  # which a terminal sends to the whole group
    found, text = interrupt(command, lambda running: running() > 2, number, is_ctrl_c)
    assert found == code and "Traceback" not in text
    end = "interrupted; run again to resume" if is_ctrl_c else "terminated"
    assert text.splitlines()[-1] == f"tupe-prepare-pretrain: {end}"


def test_options_lists_every_flag_with_the_value_that_a_training_has():
    code, listed = call_program("options", ["--arch", "tupe_roberta_mini"])
    words = ["DATA", "--user-dir", USER_DIR, "--arch", "tupe_roberta_mini", "--task", "masked_lm"]
    values = vars(parse_training(words))
    # a part is a flag and its help
    parts = dict(re.findall(r"^  (--[a-z-]+)(.*?)(?=^  --|^$|\Z)", listed, re.M | re.S))
    assert {flag(name) for name in POSITION_OPTIONS} < set(parts)
    assert {"--encoder-layers", "--attn-impl", "--dropout"} < set(parts)
    for part, text in parts.items():
        name = part[2:].replace("-", "_")
        assert name not in FIXED_OPTIONS, f"{part} is refused"
        shown = re.search(r"\(default:\s+(\S+)\)\s*$", text)
        assert shown is None or str(values[name]) == shown.group(1), part


# ---- tupe-doctor: this installation, and broken ones


def doctor_without_site(folder):
    """Run tupe-doctor with only Python, this package and the folder: -S skips site-packages."""
    process = subprocess.run(
        [sys.executable, "-S", "-m", "tupe_fairseq", "doctor"], cwd=folder, text=True,
        env={**ENV, "PYTHONPATH": f"{folder}{os.pathsep}{REPO}"}, capture_output=True,
    )  # fmt: skip
    assert process.returncode == 2 and not process.stderr
    return {line.split()[1].strip(":"): line for line in process.stdout.splitlines()}


def test_this_installation():
    code, text = call_program("doctor", [])
    lines = text.splitlines()
    assert code == 0 and all(line.startswith("ok ") for line in lines), text


def test_a_folder_that_hides_the_package(tmp_path, monkeypatch):
    (tmp_path / "tupe_fairseq.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="another tupe_fairseq hides the package"):
        doctor.check_plugin()


def test_a_python_without_torch_and_with_two_fairseqs(tmp_path):
    found = doctor_without_site(tmp_path)
    assert found["torch"].endswith("No module named 'numpy'")
    assert found["fairseq"].startswith("warning  fairseq: fairseq is not installed; pip install")
    for name in ("fairseq", "another_build"):
        info = tmp_path / f"{name}-9.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9\n")
        (info / "top_level.txt").write_text("fairseq\n")
    (tmp_path / "fairseq.py").write_text("raise OSError('lib.so.9: not found')\n")
    found = doctor_without_site(tmp_path)["fairseq"]
    assert "another_build and fairseq have overwritten" in found
