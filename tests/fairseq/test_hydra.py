"""fairseq-hydra-train with the shipped configs."""

import re

import pytest
import torch

from helpers import cli

CONFIGS = cli.REPO / "examples" / "pretraining" / "config"
GLUE = cli.REPO / "examples" / "glue" / "config"
LAST = "checkpoint_last.pt"
SMALL = [
    f"+model.{flag[2:].replace('-', '_')}={value}"
    for flag, value in zip(cli.SIZE[::2], cli.SIZE[1::2])
]
HERE = [
    f"common.user_dir={cli.USER_DIR}", "common.cpu=true", "common.log_format=json",
    "common.log_interval=1", "dataset.num_workers=0", "dataset.data_buffer_size=0",
    "dataset.required_batch_size_multiple=1", "hydra.output_subdir=null", "hydra.run.dir=.",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # Hydra writes a log where it is


def hydra(config, data, save_dir, *words, folder=CONFIGS):
    where = ["--config-dir", folder, "--config-name", config]
    paths = [f"task.data={data}", f"checkpoint.save_dir={save_dir}"]
    return cli.train(None, None, *where, *HERE, *paths, *words, program="hydra")


def pretrain(config, data, save_dir, *words):
    return hydra(config, data, save_dir, *SMALL, "dataset.disable_validation=true", *words)


def test_weights_are_those_of_argparse(data, tmp_path):
    records = pretrain("tupe_tiny", data, tmp_path / "a", "optimization.max_update=6",
                       "dataset.batch_size=4", "model.dropout=0.1")  # fmt: skip
    assert len(cli.losses(records)) == 6
    cli.pretrain(
        data, tmp_path / "b", "--rel-pos", "--tokens-per-sample", 128, "--max-positions", 128,
        "--seed", 1, "--warmup-updates", 200, "--total-num-update", 6, "--max-update", 6,
        "--lr", 1.5e-3, "--attention-dropout", 0,
    )  # fmt: skip
    cli.assert_same_weights(tmp_path / "a" / LAST, tmp_path / "b" / LAST)


def test_its_checkpoint_resumes_and_loads(data, tmp_path):
    from tupe_fairseq import TupeRobertaModel

    words = ["dataset.batch_size=4", "model.tie_cls=true"]
    pretrain("tupe_tiny", data, tmp_path / "a", *words, "optimization.max_update=2")
    pretrain("tupe_tiny", data, tmp_path / "a", *words, "optimization.max_update=4",
             "lr_scheduler.total_num_update=2")  # fmt: skip
    options = torch.load(tmp_path / "a" / LAST, weights_only=True)["cfg"]["model"]
    assert options["tie_cls"] and options["rel_pos"] and options["_name"] == "tupe_roberta_tiny"
    hub = TupeRobertaModel.from_pretrained(str(tmp_path / "a"), LAST).eval()
    assert hub.extract_features(torch.tensor([0, 5, 6, 2])).shape == (1, 4, 12)


def test_bf16(data, tmp_path):
    words = ["common.bf16=true", "optimization.max_update=4", "dataset.batch_size=4"]
    losses = cli.losses(pretrain("tupe_tiny", data, tmp_path / "a", *words))
    assert len(losses) == 4 and all(0 < loss < 20 for loss in losses)


@pytest.mark.parametrize("config", sorted(path.stem for path in CONFIGS.glob("*.yaml")))
def test_every_config_trains(config, data, tmp_path):
    words = ["optimization.max_update=1", "dataset.batch_size=2", "optimization.update_freq=[1]"]
    assert len(cli.losses(pretrain(config, data, tmp_path / "a", *words))) <= 1
    assert (tmp_path / "a" / LAST).exists()


def overrides(name):
    """Those of a task in the page of GLUE's config, which has CoLA's."""
    page = (GLUE.parent / "README.md").read_text(encoding="utf-8")
    return re.search(rf"^\| {name} \| `(.*)` \|$", page, re.MULTILINE)[1].split()


@pytest.mark.parametrize("name", ["CoLA", "STS-B", "MNLI"])
def test_glue(name, tmp_path, data):
    glue, pre = cli.write_glue(tmp_path / "glue", name), tmp_path / "pre"
    cli.pretrain(data, pre, "--rel-pos", "--max-update", 1)
    words = [*SMALL, f"checkpoint.finetune_from_model={pre / LAST}", "common.fp16=false"]
    words += ["model.max_positions=16", "optimization.max_update=1"]
    task = cli.GLUE_TASKS[name]
    words += [] if name == "CoLA" else overrides(name)
    records = hydra("cola", glue, tmp_path / "a", *words, folder=GLUE)
    assert any(f"valid_{task.selection}" in record for record in records)
    cfg = torch.load(tmp_path / "a" / LAST, weights_only=True)["cfg"]
    assert cfg["checkpoint"]["best_checkpoint_metric"] == task.selection
    assert cfg["optimization"]["max_epoch"] == task.epochs
    assert cfg["lr_scheduler"]["warmup_ratio"] == 0.06
    assert cfg["task"]["max_positions"] == cfg["model"]["max_positions"] == 16


REFUSED = {
    "a misspelled key": (
        ["+model.tie_clss=true"],
        "unknown key model.tie_clss for tupe_roberta_tiny; did you mean tie_cls?",
    ),
    "no file": (["checkpoint.restore_file=/absent.pt"], "/absent.pt is not a file"),
    "pooling": (["+model.pooling=max"], "--pooling (max) must be one of"),
    "attention": (["model.attn_impl=triton"], "unknown attention 'triton'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what, data, tmp_path, monkeypatch):
    # else Hydra 1.0, which comes with fairseq 0.12.2, fails to print an error on Python 3.10
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    words, reason = REFUSED[what]
    with pytest.raises((OSError, ValueError)) as error:
        pretrain("tupe_tiny", data, tmp_path / "a", *words)
    assert reason in str(error.value)
