"""The benchmark scripts run, on small cases; their figures are for an idle machine."""

import importlib.util
import json
import runpy
import sys

import pytest
import torch

from helpers import raw_text
from helpers.running import REPO, call_program
from helpers.training import pretrain
from tupe_fairseq.commands import prepare_pretrain
from tupe_fairseq.commands.start import NEEDS
from tupe_fairseq.files.names import TABLE_METHODS

BENCHMARKS = REPO / "scripts" / "benchmarks"
IS_OLD = not hasattr(torch.nn.functional, "scaled_dot_product_attention")
HAS_TRANSFORMERS = not IS_OLD and importlib.util.find_spec("transformers") is not None
needs_fused = pytest.mark.skipif(IS_OLD, reason="the benchmark needs torch 2.1")


@pytest.mark.skipif(not IS_OLD, reason="for a torch without fused attention")
def test_an_old_torch_is_refused(run):
    process = run(sys.executable, BENCHMARKS / "model.py", check=False)
    assert process.returncode == 2
    message = f"the kernels to compare with need torch 2.1; this is {torch.__version__}"
    assert message in process.stdout


@pytest.mark.thorough
@needs_fused
def test_claims(run, tmp_path):
    process = run(
        sys.executable, BENCHMARKS / "model.py", "--only", "claims", "--size", "tiny",
        "--longest", 128, "--rounds", 1, "--threads", 1, "--output-dir", tmp_path,
    )  # fmt: skip
    assert "authors' code: not measured, because --reference-repo was not given" in process.stdout
    results = json.loads((tmp_path / "results.json").read_text())
    rows = {row["case"]: row for row in results["rows"]}
    assert len(rows) == 7
    fine_tuning = next(row for case, row in rows.items() if case.startswith("fine-tuning"))
    assert set(fine_tuning["columns"]) == {"stock RoBERTa", "tupe", "tupe --unpad"}
    assert fine_tuning["columns"]["tupe --unpad"]["words_per_s"] > 0
    for row in rows.values():
        assert row["columns"][row["base"]]["ratio"] == 1
        assert all(len(column["seconds"]) == 1 for column in row["columns"].values())


@pytest.mark.thorough
@needs_fused
def test_curves_and_saved_bytes(run, tmp_path):
    run(
        sys.executable, BENCHMARKS / "model.py", "--only", "curves", "--longest", 1024,
        "--largest", 2, "--rounds", 1, "--threads", 1, "--output-dir", tmp_path,
    )  # fmt: skip
    results = json.loads((tmp_path / "results.json").read_text())
    assert [entry["x"] for entry in results["curves"]["length"]] == [128, 256, 512, 1024]
    assert [entry["x"] for entry in results["curves"]["batch"]] == [1, 2]
    assert (tmp_path / "curves.png").stat().st_size > 20_000
    first, *_, last = results["saved_bytes"]
    # eager keeps something of T x T; what the tiles keep does not grow so
    assert (first["T"], last["T"]) == (128, 1024)
    assert last["eager"] > 30 * first["eager"]
    assert last["chunked"] <= first["chunked"] * last["T"] / first["T"]


@needs_fused
def test_a_folder_that_is_not_a_checkout_is_refused(run, tmp_path):
    process = run(
        sys.executable, BENCHMARKS / "model.py", "--reference-repo", tmp_path,
        "--output-dir", tmp_path, check=False,
    )  # fmt: skip
    assert process.returncode == 2
    assert f"--reference-repo ({tmp_path}) holds no fairseq/models/bert/model.py" in process.stdout


LOG = "| INFO | train_inner | "


@pytest.mark.parametrize(
    "loss, updates, expected",
    [
        ("7.5", "20", "None"),
        ("nan", "20", "a loss that is not finite: [9.0, nan]"),
        ("7.5", "10", "10 updates, not 20"),
    ],
)
def test_a_training_without_sound_losses_is_a_failure(loss, updates, expected, run, tmp_path):
    """As a log says them: a line an interval."""
    lines = [
        LOG + json.dumps({"wps": "50.5", "loss": one, "num_updates": number})
        for one, number in (("9.0", "10"), (loss, updates))
    ]
    program = tmp_path / "read.py"
    program.write_text(
        f"import sys\nsys.path[:0] = [{str(BENCHMARKS)!r}]\nimport training\n"
        f"read = training.read_log({chr(10).join(lines)!r})\nprint(training.fault(read, 20))\n"
    )
    assert run(sys.executable, program).stdout.splitlines() == [expected]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_16_bits_on_a_cpu_are_refused(run, tmp_path):
    words = ["--dtype", "bf16", "--output-dir", tmp_path]
    process = run(sys.executable, BENCHMARKS / "training.py", *words, check=False)
    assert process.returncode == 2
    assert "--dtype bf16 needs a GPU" in process.stdout


def test_training(data, run, shim_folder, tmp_path):
    process = run(
        shim_folder + "/python", BENCHMARKS / "training.py", "--data", data, "--rounds", 1,
        "--updates", 20, "--layers", 1, "--tokens-per-sample", 64, "--batch-size", 2,
        "--threads", 1, "--output-dir", tmp_path, "--tupe-flags=--unpad",
    )  # fmt: skip
    assert "tupe_roberta --rel-pos" in process.stdout
    results = json.loads((tmp_path / "results.json").read_text())
    (ratio,) = results["ratio_of_each_round"]
    assert ratio > 0
    assert all(len(losses) == 2 for (losses,) in results["losses_in_bits"].values())
    assert "unpad=True" in (tmp_path / "tupe_roberta-0.log").read_text()


def test_training_with_isolated_documents(run, shim_folder, tmp_path):
    written = REPO / "tests" / "compatibility" / "v0_1" / "data-bin"
    words = [
        shim_folder + "/python", BENCHMARKS / "training.py", "--rounds", 1, "--updates", 20,
        "--layers", 1, "--width", 64, "--tokens-per-sample", 64, "--batch-size", 1,
        "--threads", 1, "--output-dir", tmp_path, "--isolate-documents",
    ]  # fmt: skip
    process = run(*words, check=False)
    assert process.returncode == 2 and "--isolate-documents needs --data" in process.stdout
    run(*words, "--data", written)
    results = json.loads((tmp_path / "results.json").read_text())
    assert list(results["words_per_second"]) == [
        "tupe_roberta --rel-pos", "tupe_roberta --rel-pos --isolate-documents"
    ]  # fmt: skip
    for name, isolates in (("tupe_roberta", False), ("isolated", True)):
        said = (tmp_path / f"{name}-0.log").read_text()
        assert f"isolate_documents={isolates}" in said and "sample_break_mode='complete'" in said


@needs_fused
def test_a_checkout_that_would_not_be_measured_is_refused(run, tmp_path):
    model = tmp_path / "fairseq" / "models" / "bert" / "model.py"
    model.parent.mkdir(parents=True)
    model.touch()
    process = run(
        sys.executable, BENCHMARKS / "model.py", "--reference-repo", tmp_path,
        "--size", "tiny", check=False,
    )  # fmt: skip
    assert process.returncode == 2
    assert "--reference-repo is measured with --size base" in process.stdout


@pytest.mark.thorough
def test_data(run, tmp_path):
    run(sys.executable, BENCHMARKS / "data.py", "--output-dir", tmp_path,
        "--input", REPO / "README.md", "--sizes-mb", "0.1", "--sample-mb", 0.1, "--rounds", 1,
        "--workers", 1, "--vocab-size", 400)  # fmt: skip
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["sample_mb"] == 0.1
    assert results["cleaning_mb_per_s"]["median"] > 0
    assert results["encoding"]["ratio_to_ids"]["median"] > 0
    (whole,) = results["runs"]
    assert whole["finished"] and whole["mb"] == 0.1
    assert whole["peak_pss_mb"] == max(step["pss_mb"] for step in whole["after_step"].values()) > 50
    assert (tmp_path / "results.md").read_text().count("\n| 0.1 |") == 1


@pytest.mark.thorough
def test_prepare(run, tmp_path):
    run(sys.executable, BENCHMARKS / "prepare.py", "--output-dir", tmp_path, "--rounds", 1,
        "--input", REPO / "README.md", "--size-mb", 0.1, "--workers", 1, "--vocab-size", 400,
        "--reference-repo", REPO)  # fmt: skip
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["differing"] == []
    names = {kind: [name.split()[1] for name in ways] for kind, ways in results["runs"].items()}
    assert names == {"learned": ["checkout", "other"], "given": ["checkout", "other", "alone"]}
    assert all(len(found) == 1 for ways in results["runs"].values() for found in ways.values())
    assert "| given | SentencePiece alone |" in (tmp_path / "results.md").read_text()


@pytest.mark.skipif(not HAS_TRANSFORMERS, reason="needs torch 2.1 and transformers")
def test_folder(run, tmp_path):
    process = run(
        sys.executable, BENCHMARKS / "folder.py", "--sizes", "tiny", "--rounds", 1, "--threads", 1,
        "--output-dir", tmp_path,
    )  # fmt: skip
    assert "tupe, sdpa" in process.stdout
    cases = json.loads((tmp_path / "results.json").read_text())["cases"]
    assert len(cases) == 2
    for case in cases.values():
        assert set(case["summary"]) == {"tupe, sdpa", "mpnet, eager", "deberta-v2, eager"}
        assert all(row["padded to not padded"] > 0 for row in case["summary"].values())
        assert case["summary"]["tupe, sdpa"]["padded, to tupe"] == 1


def test_a_folder_without_a_config_is_refused(run, tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed")
    process = run(sys.executable, BENCHMARKS / "folder.py", "--folder", tmp_path, check=False)
    assert process.returncode == 2
    assert f"--folder {tmp_path} holds no config.json" in process.stdout


@pytest.mark.thorough
def test_untie(run, data, shim_folder, tmp_path):
    pretrain(data, tmp_path / "a", "--position-encoding", "learned", "--max-update", 2)
    process = run(
        shim_folder + "/python", BENCHMARKS / "untie.py", data,
        tmp_path / "a" / "checkpoint_last.pt",
        "--updates", 10, "--scratch-updates", 11, "--seeds", 3, "--batch-size", 4,
        "--output-dir", tmp_path / "out",
    )  # fmt: skip
    losses = json.loads((tmp_path / "out" / "results.json").read_text())["loss_in_bits"]
    assert list(losses) == [
        "learned", "untied", "words alone", "untied, 10 updates, seed 3",
        "words alone, 10 updates, seed 3", "scratch, 11 updates, seed 3",
    ]  # fmt: skip
    assert all(1 < loss < 30 for loss in losses.values())
    assert f"untied: {losses['untied']:.3f} bits" in process.stdout


def test_start_up(run, tmp_path):
    words = ["--only", "options,prepare_pretrain", "--no-imports", "--rounds", 1]
    process = run(
        sys.executable, BENCHMARKS / "start_up.py", *words, "--output-dir", tmp_path, check=False
    )
    # which of the two, is a matter of what else runs here
    assert process.returncode == ("all within their limits" not in process.stdout)
    found = json.loads((tmp_path / "results.json").read_text())["found"]
    pretrain = [f"tupe-prepare-pretrain {word}" for word in ("--help", "--wrong-flag", "absent")]
    options = [f"tupe-options {word}" for word in ("--help", "--wrong-flag")]
    assert list(found) == ["python -c pass", *options, *pretrain]
    assert all(len(one["seconds"]) == len(one["busy"]) == 1 for one in found.values())
    assert found["python -c pass"]["lines"] == 0 and found[pretrain[-1]]["lines"] == 1
    (table,) = (tmp_path / "results.md").read_text().split("\n\n")
    assert len(table.splitlines()) == 2 + len(found)


def test_what_starts_slowly():
    start_up = runpy.run_path(str(BENCHMARKS / "start_up.py"))
    assert set(start_up["ABSENT"]) == {*NEEDS} - {"options"}  # which takes no files
    medians = {
        "python -c pass": 1, "import torch": 3, "import tupe_fairseq": 1.1, "TupeEncoder": 3.3,
        "tupe-score --help": 1.7, "tupe-score absent": 1.4,
    }  # fmt: skip
    found = {title: {"seconds": [seconds]} for title, seconds in medians.items()}
    assert list(start_up["excesses"](found)) == [
        "tupe-score --help: 0.70 s beyond python -c pass", "TupeEncoder: 0.30 s beyond import torch"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "script, words, message",
    [
        ("benchmarks/start_up.py", ["--only", "score,nope"], "--only: no command nope"),
        ("benchmarks/start_up.py", ["--rounds", 0], "--rounds must be above 0"),
        ("build_corpus.py", ["--every", 0], "--every is 0; give 1 or more"),
        pytest.param(
            "benchmarks/model.py", ["--largest", 0], "--largest (0) must be at least 1",
            marks=needs_fused,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.endswith(".py") else "",
)  # fmt: skip
def test_a_number_or_name_that_is_none(script, words, message, run, tmp_path):
    folder = [tmp_path / "out"] if script == "build_corpus.py" else ["--output-dir", tmp_path]
    process = run(sys.executable, REPO / "scripts" / script, *folder, *words, check=False)
    assert process.returncode == 2 and message in process.stdout.splitlines()[-1]
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_longer(run, shim_folder, tmp_path):
    raw_text.write(tmp_path / "text", raw_text.documents(60))
    words = ["--input", tmp_path / "text", "--output-dir", tmp_path / "data", "--workers", 1]
    words += ["--vocab-size", 120, "--character-coverage", 1, "--tokens-per-sample", 16]
    code, text = call_program(prepare_pretrain.main, words)
    assert code == 0, text

    def measure(seeds):
        return run(
            shim_folder + "/python", BENCHMARKS / "longer.py", tmp_path / "data", tmp_path / "text",
            "--schemes", "tupe --rel-pos; rope", "--length", 16, "--lengths", "16,32,64",
            "--updates", 100, "--batch-tokens", 64, "--seeds", seeds, "--output-dir",
            tmp_path / "out",
        ).stdout  # fmt: skip

    said = measure("1")
    assert "tupe --rel-pos, seed 1, tile, 10 updates: 16: " in said
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [(row["scheme"], row["method"], row["updates"]) for row in results["rows"]] == [
        *(("tupe --rel-pos", method, n) for method in TABLE_METHODS for n in (0, 10)),
        ("rope", None, 0), ("rope", None, 10),
    ]  # fmt: skip
    shortest = [row["lengths"][0]["loss"] for row in results["rows"] if not row["updates"]]
    # without a training, the old positions of a tiled and of a zero table are the same
    assert shortest[1] == shortest[2] != shortest[0]
    assert (tmp_path / "out" / "longer_than_trained.png").read_bytes().startswith(b"\x89PNG")
    # the first seed is kept
    assert measure("1,2").startswith(said.splitlines()[0])
    assert "(" in (tmp_path / "out" / "results.md").read_text().splitlines()[2]


def test_predictions(run, shim_folder, tmp_path):
    sentences = [f"The {'very ' * (number % 17)}old cat {number}." for number in range(300)]
    (tmp_path / "text.txt").write_text("".join(f"{one}\n" for one in sentences))
    process = run(
        shim_folder + "/python", BENCHMARKS / "predict.py", "--text", tmp_path / "text.txt",
        "--rows", 300, "--size", "tiny", "--threads", 1, "--output-dir", tmp_path / "out",
    )  # fmt: skip
    assert "core, --unpad: " in process.stdout and "not interrupted" in process.stdout
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["difference"] < 1e-5
    assert set(results["peak_megabytes"]) == {"30", "300"}
    assert len((tmp_path / "out" / "out.tsv").read_text().splitlines()) == 301
