"""What tupe-compare reads out of a model, by tupe-score and tupe-finetune as a user would."""

import json
import shutil

import pytest

from helpers.finetuning import make_chain
from helpers.running import call_program
from helpers.scoring import write_pairs
from tupe_fairseq.commands.compare import main
from tupe_fairseq.compare import comparison, measured_readouts, readout_commands
from tupe_fairseq.finetune import command

RUN = "tupe_roberta_tiny/learned-seed1"
FINETUNING = ["--epochs", "1", "--batch-size", "8", "--lrs", "1e-2", "--seeds", "1"]
PAIRS = [("the cat sat", "cat the sat"), ("a dog saw it", "dog a it saw"), ("no fish", "fish no")]


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    folder = make_chain(tmp_path_factory.mktemp("chain"))
    write_pairs(folder / "pairs" / "one.jsonl", PAIRS, linguistics_term="order")
    return folder


@pytest.fixture(scope="module")
def read_out(chain, shim_folder):
    """A run whose fine-tuning failed once, and that went on; what was printed both times."""
    out = chain / "compared"
    words = [
        chain / "dir", "--output-dir", out, "--schemes", "learned", "--seeds", 1, "--updates", 4,
        "--batch-size", 4, "--tokens-per-sample", 64, "--cpu", "--threads", 1,
        "--keep-checkpoints", "--train-flags=--encoder-layers 2 --encoder-embed-dim 32 "
        "--encoder-ffn-embed-dim 64", "--pairs", chain / "pairs", "--pairs-per-file", 2,
        "--tasks", chain / "out" / "CoLA", "--poolings", "cls,mean",
        f"--finetune-flags={' '.join(FINETUNING)}",
    ]  # fmt: skip
    words = [str(word) for word in words]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "fairseq_train", lambda: f"{shim_folder}/fairseq-train")
        real = readout_commands.console_script
        patch.setattr(
            readout_commands, "console_script",
            lambda name: f"{shim_folder}/{name}" if name == "tupe-score" else shutil.which("false"),
        )  # fmt: skip
        code, failed = call_program(main, words)
        assert code == 2, failed
        assert not (out / RUN / "readouts.json").exists()
        patch.setattr(readout_commands, "console_script", lambda name: f"{shim_folder}/{name}")
        code, text = call_program(main, words)
        assert code == 0, text
        patch.setattr(readout_commands, "console_script", real)
        code, again = call_program(main, words)
        assert code == 0 and "0 of 1 runs left" in again
    return out, failed, text


def read(path):
    return json.loads(path.read_text())


def test_what_failed_is_said_and_what_was_done_is_kept(read_out):
    out, failed, text = read_out
    assert "false ended with exit code 1; the end of" in failed
    assert "readouts.log" in failed and "1 of 1 runs left" in text
    log = (out / RUN / "readouts.log").read_text()
    assert log.count("/tupe-score /") == 1
    assert (out / RUN / "train.log").read_text().count("| done training in ") == 1
    assert not (out / RUN / "readouts").exists()


def test_the_numbers_are_those_of_the_commands(read_out, chain, tmp_path, shim_folder, monkeypatch):
    monkeypatch.setattr(command, "fairseq_train", lambda: f"{shim_folder}/fairseq-train")
    out, _, text = read_out
    found = read(out / RUN / "readouts.json")
    checkpoint = out / RUN / "checkpoint_last.pt"
    words = [checkpoint, "--pairs", chain / "pairs", "--pairs-per-file", 2, "--cpu"]
    words += ["--data", chain / "dir", "--results", tmp_path / "pairs"]
    code, printed = call_program("score", words)
    assert code == 0, printed
    scored = read(tmp_path / "pairs" / "results.json")["pairs"]
    assert scored["all"]["pairs"] == 2
    assert found["pairs"]["accuracy"] == scored["all"]["accuracy"]
    assert found["pairs"]["phenomena"] == {"order": scored["phenomena"]["order"]["accuracy"]}

    words = ["--data", chain / "out" / "CoLA", "--checkpoint", checkpoint, "--cpu"]
    words += ["--output-dir", tmp_path / "runs", "--pooling", "mean", *FINETUNING]
    code, printed = call_program("finetune", words)
    assert code == 0, printed
    runs = read(tmp_path / "runs" / "CoLA" / "results.json")["runs"]
    assert set(found["tasks"]) == {"CoLA/cls", "CoLA/mean"}
    mean = found["tasks"]["CoLA/mean"]
    assert mean == {"metric": "mcc", "scores": [run["metrics"]["valid"]["mcc"] for run in runs]}


def test_tables_and_figure(read_out):
    out, _, text = read_out
    found = read(out / RUN / "readouts.json")
    results = read(out / "results.json")
    measured = results["summary"][0]["measures"]
    assert measured["pairs"]["mean"] == 100 * found["pairs"]["accuracy"]
    assert f"| learned | {measured['pairs']['mean']:.1f} |" in text
    scores = [f"{measured[f'CoLA/{pooling}']['mean']:.1f}" for pooling in ("cls", "mean")]
    assert scores[0] == f"{100 * sum(found['tasks']['CoLA/cls']['scores']):.1f}"
    for pooling, shown in zip(("cls", "mean"), scores):
        assert f"| scheme | CoLA/{pooling} |\n| --- | ---: |\n| learned | {shown} |" in text
    assert (out / "readouts_tupe_roberta_tiny.png").read_bytes().startswith(b"\x89PNG")
    assert results["settings"]["readouts"]["pairs_per_file"] == 2


def test_a_diverged_fine_tuning_counts_as_0(tmp_path):
    runs = [{"lr": "1e-2", "seed": seed, "metrics": None} for seed in (1, 2)]
    runs[1]["metrics"] = {"valid": {"mcc": 0.5}}
    runs.append({"lr": "2e-2", "seed": 1, "metrics": {"valid": {"mcc": 0.4}}})
    content = {"selection": "mcc", "best_lr": "1e-2", "runs": runs}
    (tmp_path / "results.json").write_text(json.dumps(content))
    one = readout_commands.Readout("CoLA/cls", [], str(tmp_path / "results.json"))
    assert measured_readouts._scores(one) == {"metric": "mcc", "scores": [0.0, 0.5]}
