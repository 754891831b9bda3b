"""Pre-training through the real commands."""

import shlex
import shutil

import pytest
import torch
from fairseq.models.roberta import RobertaModel

from helpers.running import USER_DIR
from helpers.training import PRETRAINING, assert_same_weights, losses, pretrain, two_workers


@pytest.fixture(scope="module")
def unbroken(data, tmp_path_factory):
    """20 updates of TUPE-R with dropout: (folder, losses)."""
    folder = tmp_path_factory.mktemp("unbroken")
    process = pretrain(data, folder, "--rel-pos")
    return folder, losses(process)


def test_it_learns(unbroken):
    _, loss = unbroken
    assert sorted(loss) == list(range(1, 21))
    assert sum(loss[n] for n in (18, 19, 20)) / 3 < sum(loss[n] for n in (1, 2, 3)) / 3 - 0.2


def test_stopped_and_resumed_is_bit_identical(data, unbroken, tmp_path):
    folder, expected = unbroken
    first = losses(pretrain(data, tmp_path, "--rel-pos", "--max-update", 9))
    process = pretrain(data, tmp_path, "--rel-pos")
    assert "checkpoint_last.pt (epoch 1 @ 9 updates)" in process.stdout
    assert {**first, **losses(process)} == expected
    assert_same_weights(tmp_path / "checkpoint_last.pt", folder / "checkpoint_last.pt")


def test_the_loaders_workers_change_nothing(data, unbroken, tmp_path):
    """Nor does anything but the seed: it is another run of the same."""
    folder, expected = unbroken
    assert losses(pretrain(data, tmp_path, "--rel-pos", "--num-workers", 2)) == expected
    assert_same_weights(tmp_path / "checkpoint_last.pt", folder / "checkpoint_last.pt")


def test_validate(data, unbroken, run):
    process = run(
        "fairseq-validate", data, "--user-dir", USER_DIR, "--task", "masked_lm", "--cpu",
        "--path", unbroken[0] / "checkpoint_last.pt", "--valid-subset", "valid",
        "--max-tokens", 1000, "--tokens-per-sample", 64, "--skip-invalid-size-inputs-valid-test",
        "--num-workers", 0,
    )  # fmt: skip
    assert "valid on 'valid' subset | loss" in process.stdout


def test_checkpointed_and_offloaded_activations_change_nothing(data, unbroken, tmp_path):
    folder, expected = unbroken
    for flag in ("--checkpoint-activations", "--offload-activations"):
        process = pretrain(data, tmp_path / flag, "--rel-pos", flag)
        assert losses(process) == expected
        last = "checkpoint_last.pt"
        assert_same_weights(tmp_path / flag / last, folder / last, atol=1e-6)


def test_layerdrop_and_layers_to_keep(data, tmp_path, run):
    pretrain(data, tmp_path, "--max-update", 4, "--encoder-layers", 4, "--encoder-layerdrop", 0.5)
    hub = RobertaModel.from_pretrained(
        str(tmp_path),
        "checkpoint_last.pt",
        str(data),
        user_dir=USER_DIR,
        bpe=None,
        encoder_layers_to_keep="0,2",
    )
    assert len(hub.model.encoder.sentence_encoder.layers) == 2
    kept = torch.load(tmp_path / "checkpoint_last.pt", map_location="cpu")["model"]
    name = "encoder.sentence_encoder.layers.{}.fc1.weight"
    assert hub.model.state_dict()[name.format(1)].equal(kept[name.format(2)])


def test_a_moving_average_is_stored_and_resumed(data, tmp_path):
    flags = ["--rel-pos", "--store-ema", "--ema-decay", 0.9]
    pretrain(data, tmp_path, *flags, "--max-update", 2)
    process = pretrain(data, tmp_path, *flags, "--max-update", 3)
    assert "checkpoint_last.pt (epoch 1 @ 2 updates)" in process.stdout
    # said once, about the weights, not at every update of their average
    assert process.stdout.count("tensors; newly initialized") == 1
    assert "vocabulary" not in process.stdout
    state = torch.load(tmp_path / "checkpoint_last.pt", map_location="cpu")
    average = state["extra_state"]["ema"]
    name = "encoder.sentence_encoder.layers.0.fc1.weight"
    assert list(average) == list(state["model"])
    assert 0 < (average[name] - state["model"][name]).abs().max() < 0.1
    assert all(average[n].equal(x) for n, x in state["model"].items() if "version" in n)


def test_every_option_is_stored(unbroken):
    state = torch.load(unbroken[0] / "checkpoint_last.pt", map_location="cpu")
    model = vars(state["cfg"]["model"])
    stored = {"rel_pos": True, "rel_pos_buckets": 32, "max_rel_pos": 128, "tie_cls": False,
              "encoder_layers": 2, "max_positions": 64, "pooler_dropout": 0.1}  # fmt: skip
    assert {name: model.get(name) for name in stored} == stored


def on_the_cpu(program, words):
    """A command for each process of torchrun, as in examples/pretraining."""
    command = " ".join(shlex.quote(str(word)) for word in [program, *words])
    return (
        f"{command} --distributed-init-method env:// --distributed-no-spawn "
        "--distributed-world-size $WORLD_SIZE --distributed-rank $RANK "
        "--distributed-backend gloo --ddp-backend legacy_ddp"
    )


def test_two_processes_of_torchrun_equal_one_with_update_freq_2(data, tmp_path, run, shim_folder):
    """Also if they stop, and go on from what one of them has written."""
    flags = ["--rel-pos", "--dropout", 0, "--attention-dropout", 0]
    single, double = tmp_path / "single", tmp_path / "double"
    pretrain(data, single, *flags, "--update-freq", 2, "--max-update", 9)
    for updates in (3, 9):
        words = [data, *PRETRAINING, *flags, "--save-dir", double, "--max-update", updates]
        process = run(
            f"{shim_folder}/torchrun",
            "--standalone",
            "--nproc_per_node",
            2,
            "--no_python",
            "sh",
            "-c",
            on_the_cpu(f"{shim_folder}/fairseq-train", words),
        )
        assert "distributed init (rank 1): env://" in process.stdout
    assert "checkpoint_last.pt (epoch 1 @ 3 updates)" in process.stdout
    assert sorted(losses(process)) == list(range(4, 10))
    # the same batches; gradients are summed in another order
    assert_same_weights(single / "checkpoint_last.pt", double / "checkpoint_last.pt", atol=1e-5)


def test_a_process_that_cannot_read_the_checkpoint(data, unbroken, tmp_path):
    """On another machine, with a --save-dir that is not shared."""
    (tmp_path / "0" / "checkpoints").mkdir(parents=True)
    (tmp_path / "1").mkdir()
    shutil.copy(unbroken[0] / "checkpoint_last.pt", tmp_path / "0" / "checkpoints")

    def worker(*flags):
        own = tmp_path / str(flags[-1])
        return pretrain(data, "checkpoints", "--rel-pos", *flags, cwd=own, check=False)

    first, second = two_workers(worker)
    missing = "the first machine has checkpoints/checkpoint_last.pt and this one does not"
    assert first.returncode and second.returncode
    assert missing in second.stdout and missing not in first.stdout
    assert not losses(first)
