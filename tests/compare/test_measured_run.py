"""What result.json says of a run, and what the run is started with; nothing is trained."""

import json

import pytest

from tupe_fairseq.compare import measured_run
from tupe_fairseq.compare.checks import check_schemes
from tupe_fairseq.compare.comparison import Comparison, ComparisonRun
from tupe_fairseq.compare.parse_schemes import parse_scheme, parse_schemes
from tupe_fairseq.compare.runner import _baseline
from tupe_fairseq.encoder import TupeEncoder
from tupe_fairseq.fairseq_runs.train import Diverged
from tupe_fairseq.options import TupeConfig

RUN = ComparisonRun("tupe_roberta_tiny", parse_scheme("learned"), 1)
LOG = "x | INFO | num. shared model params: 12,345 (num. trained: 12,345)\n"


@pytest.fixture
def comparison(tmp_path):
    return Comparison(
        str(tmp_path), str(tmp_path), updates=30, warmup_updates=1, validate_every=10, threads=3,
        train_flags=("--encoder-layers", "3", "--encoder-embed-dim", "16",
                     "--encoder-attention-heads", "2"),
    )  # fmt: skip


@pytest.fixture
def made(comparison, monkeypatch):
    """Makes a run whose training prints three validations; its result and environment."""
    losses, speeds = (8.0, 6.0, 7.0), (100, 900, 200)

    def make(gpu=None, diverged=False):
        seen = {}

        def train(command, log_path, on_line, *, lock, env, on_start):
            seen.update(env=env, lock=lock)
            with open(log_path, "w", encoding="utf-8") as log:
                log.write(LOG)
            for number, (loss, speed) in enumerate(zip(losses, speeds), 1):
                updates = 10 * number
                words = {"wpb": str(speed), "num_updates": str(updates), "loss": "1"}
                on_line(f"x | train_inner | {json.dumps(words)}\n")
                valid = {"valid_loss": str(loss), "valid_num_updates": str(updates)}
                on_line(f"x | valid | {json.dumps(valid)}\n")
                if diverged and number == 2:
                    raise Diverged("gradients are Nan/Inf")

        monkeypatch.setattr(measured_run, "train", train)
        validated = measured_run.Measurement._validated

        def after_a_second(self, updates, loss):
            self._seconds += 1
            validated(self, updates, loss)

        monkeypatch.setattr(measured_run.Measurement, "_validated", after_a_second)
        result = measured_run.compare_one(
            comparison, RUN, position_parameters=5, gpu=gpu, side_by_side=2, lock=9
        )
        assert result == json.loads(open(comparison.path(RUN, "result.json")).read())
        return result, seen

    return make


def test_result(made):
    found, _ = made()
    assert (found["final_loss"], found["best_loss"], found["best_updates"]) == (7.0, 6.0, 20)
    # ten updates a second of 100, 900 and 200 words: the median, not the mean, nor the fastest
    speeds = sorted(10 * words for words in (100, 900, 200))
    assert found["words_per_second"] == pytest.approx(speeds[1], rel=0.05)
    assert [point["loss"] for point in found["curve"]] == [8.0, 6.0, 7.0]
    assert (found["parameters"], found["position_parameters"]) == (12345, 5)
    assert (found["side_by_side"], found["seed"], found["scheme"]) == (2, 1, "learned")


def test_what_was_read_out_of_a_checkpoint_that_is_gone_is_not_kept(made, tmp_path):
    stale = tmp_path / "tupe_roberta_tiny" / "learned-seed1" / "readouts" / "pairs.done"
    stale.parent.mkdir(parents=True)
    stale.write_text("true")
    made()
    assert not stale.parent.exists()


def test_a_diverged_run_has_no_final_loss(made):
    found, _ = made(diverged=True)
    assert found["diverged"] == "gradients are Nan/Inf"
    assert found["final_loss"] is None and len(found["curve"]) == 2 and found["best_loss"] == 6.0


@pytest.mark.parametrize("gpu", [None, "1", "GPU-5f"])
def test_a_run_sees_its_own_gpu(gpu, made):
    _, seen = made(gpu)
    expected = {"OMP_NUM_THREADS": "3"}
    assert seen["env"] == (expected if gpu is None else {**expected, "CUDA_VISIBLE_DEVICES": gpu})
    assert seen["lock"] == 9


def test_position_parameters_are_those_of_all_layers(comparison):
    schemes = list(parse_schemes("learned; shaw; disentangled; tupe --rel-pos; none"))
    found = check_schemes(comparison, "tupe_roberta_tiny", schemes)
    for scheme in schemes:
        # 3 layers, of which shaw and disentangled have positions in each
        config = TupeConfig(
            embed_dim=16, num_heads=2, num_layers=3, max_positions=128,
            position_encoding=scheme.name, rel_pos="--rel-pos" in scheme.flags,
        )  # fmt: skip
        modules = TupeEncoder(config).position_encodings().values()
        expected = sum(p.numel() for module in modules for p in module.parameters())
        assert found["tupe_roberta_tiny", scheme] == expected, scheme.label
    assert found["tupe_roberta_tiny", schemes[0]] == 128 * 16


@pytest.mark.parametrize(
    "given, order, expected",
    [
        (None, ["tupe", "learned", "none"], "learned"),
        (None, ["tupe", "none"], "tupe"),
        ("none", ["learned", "none"], "none"),
    ],
)
def test_baseline(given, order, expected, comparison):
    assert _baseline(comparison, given, order) == expected
