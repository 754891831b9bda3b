"""Pictures of positions in TensorBoard, from real runs of fairseq-train."""

import io
import sys

import pytest
from omegaconf import OmegaConf

from helpers.running import run
from helpers.training import PRETRAINING, assert_same_weights
from tupe_fairseq.plugin.model.tensorboard import PositionPictures, tensorboard_logdir

event_accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator",
    reason="tensorboard is not installed (pip install tensorboard)",
)
# two validations, the second at the last update and at the end of the run
FLAGS = [
    *(word for word in PRETRAINING if word != "--disable-validation"), "--rel-pos",
    "--max-update", 4, "--validate-interval-updates", 2, "--no-save-optimizer-state",
]  # fmt: skip


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """(folder of a run without the flag, folder of one with it, its log)."""
    without, with_flag = (tmp_path_factory.mktemp(name) for name in ("without", "with"))
    _train(data, without)
    process = _train(data, with_flag, "--tensorboard-logdir", with_flag / "logs")
    return without, with_flag, process.stdout


def _train(data, folder, *flags):
    return run("fairseq-train", data, *FLAGS, "--save-dir", folder, *flags)


def images(folder):
    """{tag: [(step, picture), ...]}"""
    events = event_accumulator.EventAccumulator(str(folder), {event_accumulator.IMAGES: 0})
    events.Reload()
    return {
        tag: [(event.step, event.encoded_image_string) for event in events.Images(tag)]
        for tag in events.Tags()["images"]
    }


def test_pictures_of_each_validation(runs):
    from matplotlib.image import imread

    _, folder, log = runs
    found = images(folder / "logs" / "positions")
    assert sorted(found) == ["positions/position_bias", "positions/profile_by_distance"]
    for pictures in found.values():
        assert [step for step, _ in pictures] == [2, 4]
        first, second = (imread(io.BytesIO(png)) for _, png in pictures)
        assert min(first.shape[:2]) > 200 and first.std() > 0.05
        assert first.shape != second.shape or (first != second).any()
    assert log.count("begin validation") >= 2
    assert "no pictures" not in log


def test_training_is_the_same(runs):
    without, with_flag, _ = runs
    assert not list(without.rglob("*events*"))
    assert_same_weights(*(folder / "checkpoint_last.pt" for folder in (without, with_flag)))


# fairseq-train in a process where fairseq has not found TensorBoard
WITHOUT = """
import importlib, sys
for name in [name for name in sys.modules if "tensorboard" in name.lower()]:
    del sys.modules[name]
sys.modules.update(dict.fromkeys(["tensorboard", "tensorboardX"]))
from fairseq.logging import progress_bar
del progress_bar.SummaryWriter
importlib.reload(progress_bar)
assert progress_bar.SummaryWriter is None
from fairseq_cli.train import cli_main
cli_main()
"""


def test_without_tensorboard_there_is_one_warning(data, runs, tmp_path):
    program = tmp_path / "without.py"
    program.write_text(WITHOUT)
    logs = tmp_path / "logs"
    process = run(
        sys.executable, program, data, *FLAGS, "--save-dir", tmp_path, "--tensorboard-logdir", logs
    )
    warning = "no pictures of positions in TensorBoard: tensorboard is not installed"
    assert process.stdout.count(warning) == 1
    assert not logs.exists()
    assert_same_weights(tmp_path / "checkpoint_last.pt", runs[0] / "checkpoint_last.pt")


def test_hydra_says_where_as_well():
    config = OmegaConf.create({"common": {"tensorboard_logdir": "logs"}, "model": {"_name": "x"}})
    assert tensorboard_logdir(config.model) == "logs"
    config.common.tensorboard_logdir = None
    assert tensorboard_logdir(config.model) is None
    assert tensorboard_logdir(OmegaConf.create({"_name": "x"})) is None


def test_loading_a_checkpoint_draws_nothing(tmp_path):
    pictures = PositionPictures(str(tmp_path))
    pictures.set_num_updates(7)  # as loading does, without train()
    pictures.eval(None)
    assert not list(tmp_path.iterdir())
