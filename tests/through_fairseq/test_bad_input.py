"""Each wrong use stops fairseq-train before any work, with the reason in its output."""

import pytest
import torch

from helpers.training import PRETRAINING, pretrain

# the same path through fairseq as the others; what is refused, and why, the core's tests show
again = pytest.mark.thorough


def refused(data, save_dir, *flags):
    process = pretrain(data, save_dir, "--max-update", 2, *flags, check=False)
    assert process.returncode, process.stdout[-2000:]
    assert "num_updates" not in process.stdout  # nothing was trained
    return process.stdout


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--encoder-attention-heads", 5],
         "embed_dim (32) is not divisible by num_heads (5); change --encoder-embed-dim or"),
        (["--rel-pos", "--rel-pos-buckets", 31], "rel_pos_buckets (31) must be even"),
        pytest.param(["--rel-pos", "--rel-pos-buckets", 2],
                     "rel_pos_buckets (2) must be even and at least 4", marks=again),
        pytest.param(["--rel-pos", "--max-rel-pos", 8],
                     "max_rel_pos (8) must be above the range of exact", marks=again),
        (["--rel-pos-buckets", 32], "rel_pos_buckets (32) has no effect without rel_pos; add"),
        pytest.param(["--max-rel-pos", 64],
                     "max_rel_pos (64) has no effect without rel_pos; add --rel-pos", marks=again),
        (["--tokens-per-sample", 128],
         "--tokens-per-sample (128) exceeds --max-positions (64)"),
        (["--quant-noise-pq", 0.1], "--quant-noise-pq (0.1) does not apply to tupe_roberta"),
        pytest.param(["--mha-reg-scale-factor", 0.1],
                     "--mha-reg-scale-factor (0.1) does not apply", marks=again),
        pytest.param(["--mha-heads-to-keep", 2], "--mha-heads-to-keep (2) does not apply",
                     marks=again),
        (["--activation-fn", "relu_squared"], "relu_squared"),
    ],
    ids=lambda value: "-".join(str(v).strip("-") for v in value) if isinstance(value, list) else "",
)  # fmt: skip
def test_flags(flags, message, data, tmp_path):
    assert message in refused(data, tmp_path, *flags)


@pytest.fixture(scope="module")
def checkpoint(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    pretrain(data, folder, "--rel-pos", "--max-update", 1)
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def stock(data, run, tmp_path_factory):
    """A checkpoint of fairseq's own RoBERTa, of the same size."""
    folder = tmp_path_factory.mktemp("stock")
    pretrain(data, folder, "--max-update", 1, "--arch", "roberta")
    return folder / "checkpoint_last.pt"


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--rel-pos", "--max-rel-pos", 64],
         "--max-rel-pos is 128 in the checkpoint and 64 in this model"),
        (["--rel-pos", "--rel-pos-buckets", 16],
         "--rel-pos-buckets is 32 in the checkpoint and 16 in this model"),
        (["--rel-pos", "--tie-cls"], "--tie-cls is False in the checkpoint and True in this model"),
        ([], "--rel-pos is True in the checkpoint and False in this model"),
        (["--rel-pos", "--max-positions", 96], "max_positions is 64 in the checkpoint but 96 in"),
    ],
    ids=["max_rel_pos", "buckets", "tie_cls", "tupe_a", "max_positions"],
)  # fmt: skip
def test_position_options_that_are_not_the_checkpoints(flags, message, checkpoint, data, tmp_path):
    assert message in refused(data, tmp_path, "--restore-file", checkpoint, *flags)


def test_stock_roberta_given_to_tupe(stock, data, tmp_path):
    output = refused(data, tmp_path, "--restore-file", stock)
    assert "adds learned positions to its input, as fairseq's stock roberta" in output


def test_tupe_given_to_stock_roberta(checkpoint, data, tmp_path):
    output = refused(data, tmp_path, "--restore-file", checkpoint, "--arch", "roberta")
    assert "encoder.sentence_encoder.position_version" in output
    assert "Cannot load model parameters from checkpoint" in output


def test_an_absent_restore_file(data, tmp_path):
    output = refused(data, tmp_path, "--restore-file", "/nowhere/model.pt")
    assert "--restore-file /nowhere/model.pt is not a file, and nothing was loaded" in output


@pytest.mark.parametrize("flag", ["--restore-file", "--finetune-from-model"])
def test_a_folder_in_place_of_a_checkpoint(flag, data, tmp_path):
    output = refused(data, tmp_path, flag, data)
    assert f"{flag} {data} is not a file, and nothing was loaded" in output


def test_the_original_restore_file_may_be_gone_later(checkpoint, data, tmp_path, run):
    """Its name stays in the stored options, which must stop neither validation nor resuming."""
    first = checkpoint.with_name("moved.pt")
    first.write_bytes(checkpoint.read_bytes())
    pretrain(data, tmp_path, "--rel-pos", "--max-update", 2, "--restore-file", first)
    first.unlink()
    pretrain(data, tmp_path, "--rel-pos", "--max-update", 3)
    process = run(
        "fairseq-validate", data, "--user-dir", PRETRAINING[1], "--task", "masked_lm", "--cpu",
        "--path", tmp_path / "checkpoint_last.pt", "--valid-subset", "valid", "--batch-size", 4,
        "--tokens-per-sample", 64, "--skip-invalid-size-inputs-valid-test",
        "--num-workers", 0,
    )  # fmt: skip
    assert "| loss" in process.stdout


@pytest.mark.parametrize("kind", ["truncated", "corrupt"])
def test_a_damaged_checkpoint(kind, checkpoint, data, tmp_path):
    damaged = tmp_path / "damaged.pt"
    content = checkpoint.read_bytes()
    if kind == "truncated":
        damaged.write_bytes(content[: len(content) // 2])
    else:
        damaged.write_bytes(b"\0" * 200 + content[200:400] + b"\0" * 4000)
    assert str(damaged) in refused(data, tmp_path, "--restore-file", damaged)


def test_another_vocabulary(checkpoint, data, tmp_path):
    other = tmp_path / "data"
    other.mkdir()
    for path in data.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    with open(other / "dict.txt", "a") as file:
        file.write("extra 1\n")
    rows = torch.load(checkpoint, map_location="cpu")["model"]["encoder.lm_head.bias"].numel()
    output = refused(other, tmp_path, "--rel-pos", "--restore-file", checkpoint)
    sizes = f"has {rows} rows, but this model's dictionary has {rows + 1} symbols"
    assert "word embedding " + sizes in output
    assert "dict.txt that the checkpoint was trained with" in output


def test_another_vocabulary_of_the_same_size(checkpoint, data, tmp_path):
    """Two pieces change places: every shape fits, and every sentence would mean something else."""
    other = tmp_path / "data"
    other.mkdir()
    for path in data.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    first, second, *rest = (data / "dict.txt").read_text().splitlines()
    (other / "dict.txt").write_text("\n".join([second, first, *rest]) + "\n")
    output = refused(other, tmp_path, "--rel-pos", "--restore-file", checkpoint)
    assert "trained with a different vocabulary of the same size" in output


def test_a_checkpoint_that_does_not_record_its_vocabulary(checkpoint, data, tmp_path):
    state = torch.load(checkpoint, map_location="cpu")
    del state["model"]["encoder.vocabulary_version"]
    older = tmp_path / "older.pt"
    torch.save(state, older)
    process = pretrain(data, tmp_path, "--rel-pos", "--restore-file", older, "--max-update", 2)
    assert "the checkpoint does not record its vocabulary" in process.stdout
