"""fairseq-hydra-train with the shipped configs of the nine GLUE tasks."""

import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from helpers.glue_training import MODEL, RATIO, make, records
from helpers.running import REPO, USER_DIR
from helpers.training import SIZE
from tupe_fairseq.glue.glue_tasks import GLUE_TASKS

CONFIGS = REPO / "examples" / "glue" / "config"
TINY = [
    f"+model.{flag[2:].replace('-', '_')}={value}" for flag, value in zip(SIZE[::2], SIZE[1::2])
]


@pytest.fixture(scope="module")
def pretrained(run, tmp_path_factory):
    """A checkpoint of masked_lm on the words of the tasks."""
    folder = tmp_path_factory.mktemp("pretrained")
    data = make("SST-2", folder / "SST-2")
    run("fairseq-train", data / "input0", *MODEL, "--task", "masked_lm", "--criterion",
        "masked_lm", "--tokens-per-sample", 32, "--max-positions", 32, "--batch-size", 8,
        "--optimizer", "adam", "--lr", 1e-3, "--max-update", 1, "--cpu", "--num-workers", 0,
        "--data-buffer-size", 0, "--save-dir", folder, "--disable-validation")  # fmt: skip
    return folder / "checkpoint_last.pt"


def finetune(run, name, data, pretrained, save_dir, *overrides, **kwargs):
    stem = name.lower().replace("-", "")
    return run(
        "fairseq-hydra-train", "--config-dir", CONFIGS, "--config-name", stem,
        f"common.user_dir={USER_DIR}", f"task.data={data}", f"checkpoint.save_dir={save_dir}",
        f"checkpoint.finetune_from_model={pretrained}", f"hydra.run.dir={save_dir}",
        "common.cpu=true", "common.fp16=false", "common.log_format=json", "common.log_interval=1",
        "dataset.num_workers=0", "dataset.data_buffer_size=0", "model.max_positions=32", *TINY,
        *overrides, **kwargs,
    )  # fmt: skip


def test_there_is_a_config_for_every_task():
    stems = sorted(name.lower().replace("-", "") for name in GLUE_TASKS)
    assert sorted(path.stem for path in CONFIGS.glob("*.yaml")) == stems


@pytest.mark.parametrize("name", ["CoLA", "STS-B", "QQP", "MNLI"])
def test_a_config_trains_and_selects_by_its_metric(name, run, pretrained, tmp_path):
    """One update; what the checkpoint then holds is the recipe."""
    task = GLUE_TASKS[name]
    data = make(name, tmp_path / "data")
    process = finetune(run, name, data, pretrained, tmp_path, "optimization.max_update=1")
    subsets = [split for split in task.files if split.startswith("valid")]
    for subset in subsets:
        (record,) = records(process, f"{subset}_{task.selection}")
        if subset == "valid":
            first = record
    state = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "checkpoint_best.pt"))
    score = state["extra_state"]["val_loss"]
    assert score == pytest.approx(float(first[f"valid_{task.selection}"]), abs=1e-3)

    cfg = state["cfg"]
    assert cfg.checkpoint.best_checkpoint_metric == task.selection
    assert cfg.optimization.max_epoch == task.epochs and cfg.optimization.lr == [2e-5]
    assert cfg.dataset.batch_size == 32 and cfg.lr_scheduler.warmup_ratio == 0.06
    assert cfg.dataset.valid_subset.split(",") == subsets
    assert cfg.task.max_positions == cfg.model.max_positions == 32
    assert cfg.optimizer.adam_eps == 1e-6 and cfg.optimizer.adam_betas == "(0.9,0.999)"
    assert cfg.optimizer.weight_decay == 0.01 and cfg.model.dropout == 0.1
    # the encoder is the pre-trained one: one update of at most 2e-5 an entry
    trained = torch.load(pretrained, map_location="cpu")["model"]
    key = "encoder.sentence_encoder.layers.0.fc1.weight"
    torch.testing.assert_close(state["model"][key], trained[key], rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", GLUE_TASKS)
def test_a_config_is_the_recipe_of_its_task(name):
    task = GLUE_TASKS[name]
    config = OmegaConf.load(str(CONFIGS / f"{name.lower().replace('-', '')}.yaml"))
    criterion = {"_name": "glue_sentence_prediction", "glue_task": name}
    if task.is_regression:
        criterion["regression_target"] = True
    assert config.criterion == criterion
    assert config.task.num_classes == task.num_classes
    assert config.checkpoint.best_checkpoint_metric == task.selection
    assert config.checkpoint.maximize_best_checkpoint_metric
    assert config.optimization.max_epoch == task.epochs
    subsets = [split for split in task.files if split.startswith("valid")]
    assert config.dataset.valid_subset.split(",") == subsets
    # each file is complete, so nothing else keeps the rest the same for every task
    other = OmegaConf.load(str(CONFIGS / "cola.yaml"))
    other.criterion = config.criterion
    other.task.num_classes = config.task.num_classes
    other.checkpoint.best_checkpoint_metric = config.checkpoint.best_checkpoint_metric
    other.optimization.max_epoch = config.optimization.max_epoch
    other.dataset.valid_subset = config.dataset.valid_subset
    assert config == other


def test_another_length_of_the_task_is_refused(run, pretrained, tmp_path):
    data = make("RTE", tmp_path / "data")
    process = finetune(
        run, "RTE", data, pretrained, tmp_path, "task.max_positions=512", check=False
    )
    assert process.returncode
    assert "model.max_positions is 32 and task.max_positions 512; set both" in process.stdout


def test_no_checkpoint_is_refused(run, tmp_path):
    data = make("RTE", tmp_path / "data")
    process = finetune(run, "RTE", data, "???", tmp_path, check=False)
    assert process.returncode
    assert "finetune_from_model" in process.stdout and not list(tmp_path.glob("*.pt"))


def test_argparse_gives_the_same_scores(run, pretrained, tmp_path):
    data = make("STS-B", tmp_path / "data")
    by_hydra = finetune(run, "STS-B", data, pretrained, tmp_path / "hydra",
                        "optimization.max_epoch=2", "common.seed=5")  # fmt: skip
    by_argparse = run(
        "fairseq-train", data, *MODEL, "--task", "glue_sentence_prediction", "--num-classes", 1,
        "--criterion", "glue_sentence_prediction", "--glue-task", "STS-B", "--regression-target",
        "--max-positions", 32, "--unpad", "--finetune-from-model", pretrained, "--batch-size", 32,
        "--required-batch-size-multiple", 1, "--optimizer", "adam", "--adam-betas", "(0.9,0.999)",
        "--adam-eps", 1e-6, "--clip-norm", 1.0, "--weight-decay", 0.01, "--lr", 2e-5, *RATIO, 0.06,
        "--max-epoch", 2,
        "--find-unused-parameters", "--best-checkpoint-metric", "pearson_and_spearman",
        "--maximize-best-checkpoint-metric", "--seed", 5, "--cpu", "--num-workers", 0,
        "--data-buffer-size", 0, "--log-format", "json", "--log-interval", 1, "--save-dir",
        tmp_path / "argparse",
    )  # fmt: skip
    key = "valid_pearson_and_spearman"
    scores = [record[key] for record in records(by_hydra, key)]
    assert len(scores) == 2
    assert scores == [record[key] for record in records(by_argparse, key)]
