"""fairseq trains tupe_roberta: it learns, and resumes to the same weights; shipped configs."""

import math
import os
import re
import signal
import time

import pytest
import torch
from fairseq.data import data_utils
from fairseq.tasks.masked_lm import MaskedLMConfig

from helpers import training
from helpers.own_encoding import NAME, OWN_DIR
from helpers.running import REPO, USER_DIR, free_port, run_here, start_forked
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.labelled.glue import GLUE_TASKS

EVERY_5 = ["--save-interval-updates", 5, "--keep-interval-updates", -1]
LAST, AT_5 = "checkpoint_last.pt", "checkpoint_1_5.pt"


def test_it_learns(tmp_path):
    data = training.write_text_data(tmp_path / "data", words=training.WORDS[:6])
    flags = ["--rel-pos", "--encoder-embed-dim", 64, "--encoder-attention-heads", 4, "--lr", 0.005]
    flags += ["--warmup-updates", 10, "--max-update", 120, "--total-num-update", 120]
    flags += ["--dropout", 0, "--attention-dropout", 0, "--batch-size", 8]
    losses = training.losses(training.pretrain(data, tmp_path, *flags))
    # frequencies alone give log2(6); a word follows from its neighbours
    assert sum(losses[:5]) / 5 > 3 and sum(losses[-10:]) / 10 < 0.9 * math.log2(6)


def test_the_log_says_what_decides_the_speed(data, tmp_path):
    # fairseq's autocast affects only CUDA
    done = training.pretrain(data, tmp_path, "--max-update", 1, "--attn-impl", "sdpa", "--amp")
    line = "device: 1 x CPU; dtype: float32; attention: sdpa; optimizer: adam"
    assert done.stdout.count(line) == 1


def test_a_line_is_a_sample(data, tmp_path):
    """fairseq's code for it uses a name that numpy 2 lacks."""
    flags = ["--sample-break-mode", "eos", "--max-update", 2]
    assert len(training.losses(training.pretrain(data, tmp_path, *flags))) == 2
    task, _, _ = training.build(data, *training.MODEL, *training.PRETRAINING, *flags)
    task.load_dataset("valid")
    lines = data_utils.load_indexed_dataset(str(data / "valid"), task.dictionary)
    assert list(task.datasets["valid"].sizes) == [length + 1 for length in lines.sizes]


@pytest.mark.skipif(not hasattr(MaskedLMConfig, "skip_masking"), reason="0.12.2 draws other masks")
def test_resumed_training_is_the_same_with_fairseqs_own_task(data, pretrained, tmp_path):
    training.pretrain(data, tmp_path, "--rel-pos", "--task", "masked_lm", "--max-update", 5)
    assert len(training.losses(training.pretrain(data, tmp_path, "--rel-pos"))) == 5
    training.assert_same_weights(tmp_path / LAST, pretrained / LAST)


@pytest.mark.parametrize(
    "flags, atol, is_fused",
    [
        ([], 1e-6, [False, True]),  # a few float32 roundings of weights up to 1
        # a rounding of fp16
        (["--memory-efficient-fp16", "--fp16-init-scale", 4], 1e-3, [True, False]),
    ],
    ids=["fp32", "fp16"],
)
def test_fused_adam_is_adam(flags, atol, is_fused, data, tmp_path):
    """With an eps that matters; each resumes from the other's checkpoint."""
    flags = ["--rel-pos", "--adam-eps", 1e-2, *flags]
    training.pretrain(data, tmp_path / "adam", *flags)
    for updates, fused in zip((5, 10), is_fused):
        more = ["--optimizer", "fused_adam"] if fused else []
        training.pretrain(data, tmp_path / "both", *flags, *more, "--max-update", updates)
    training.assert_same_weights(tmp_path / "adam" / LAST, tmp_path / "both" / LAST, atol=atol)


def test_workers_change_nothing(data, tmp_path):
    """fairseq keeps worker processes through all epochs; each epoch has masks of its own."""
    for workers in (0, 2):
        flags = "--num-workers", workers, "--batch-size", 16, "--log-interval", 10
        process = training.pretrain(data, tmp_path / str(workers), *flags)
        assert sum(record["kind"] == "train" for record in training.records(process)) > 2  # epochs
    training.assert_same_weights(*(tmp_path / x / LAST for x in "02"))


def test_a_killed_training_resumes(data, tmp_path):
    killed, words = tmp_path / "killed", ["--rel-pos", "--max-update", 40, *EVERY_5]
    words += ["--keep-interval-updates", 1]
    training.pretrain(data, tmp_path / "whole", *words)
    command = ["fairseq-train", data, *training.MODEL, *training.PRETRAINING, *words]
    child = start_forked(tmp_path / "log", *command, "--save-dir", killed)
    end = time.monotonic() + 120
    while time.monotonic() < end and not (killed / LAST).exists():
        time.sleep(0.01)
    os.kill(child, signal.SIGSTOP)
    with pytest.raises(
        ValueError, match=rf"\(process {child} on .*\) is at work in {killed}; wait"
    ):
        training.pretrain(data, killed, *words)
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not (killed / "checkpoint_2_40.pt").exists()
    training.pretrain(data, killed, *words)
    training.assert_same_weights(killed / LAST, tmp_path / "whole" / LAST)


def of_two_processes(data, save_dirs, *flags):
    """The commands of two data-parallel processes on the CPU, as two machines start them."""
    words = [
        "fairseq-train", data, *training.MODEL, *training.PRETRAINING,
        "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp", *flags,
        "--distributed-no-spawn", "--distributed-world-size", 2,
        "--distributed-init-method", f"tcp://127.0.0.1:{free_port()}",
    ]  # fmt: skip
    more = [("--distributed-rank", rank, "--save-dir", save_dirs[rank]) for rank in range(2)]
    return [(*words, *own) for own in more]


def forked(folder, commands):
    """Run commands in parallel; the exit status and the output of each."""
    logs = [folder / f"log{n}" for n in range(len(commands))]
    children = [start_forked(log, *words) for log, words in zip(logs, commands)]
    return [(os.waitpid(child, 0)[1], log.read_text()) for child, log in zip(children, logs)]


@pytest.mark.parametrize("optimizer, lr, atol", [("adam", 1e-2, 2e-6), ("muon", 1e-3, 1e-6)])
def test_two_processes_are_one_with_the_same_batch(optimizer, lr, atol, data, tmp_path):
    plain = ["--rel-pos", "--isolate-documents", "--dropout", 0, "--attention-dropout", 0]
    plain += ["--batch-size", 2, "--optimizer", optimizer, "--lr", lr, *EVERY_5]
    one, two = tmp_path / "one", tmp_path / "two"
    training.pretrain(data, one, *plain, "--update-freq", 2)
    ends = forked(tmp_path, of_two_processes(data, [two, two], *plain))
    assert [status for status, _ in ends] == [0, 0], ends
    # the order of sums differs
    training.assert_same_weights(one / LAST, two / LAST, atol=atol)
    # batches that the two have seen are not repeated
    words = ["--update-freq", 2, "--restore-file", two / AT_5]
    training.pretrain(data, tmp_path / "resumed", *plain, *words)
    training.assert_same_weights(one / LAST, tmp_path / "resumed" / LAST, atol=atol)


def test_a_checkpoint_that_one_machine_lacks_is_refused(data, pretrained, tmp_path):
    commands = of_two_processes(data, [pretrained, tmp_path], "--rel-pos")
    for status, text in forked(tmp_path, commands):
        assert status != 0 and "exists for only 1 of 2 processes" in text.splitlines()[-1]


def test_stock_roberta_resumes(data, tmp_path):
    """From torch 2.6 on, it would not resume without our --user-dir."""
    stock = [*training.MODEL, "--arch", "roberta_base", *training.PRETRAINING]
    stock += ["--task", "masked_lm"]
    losses = training.losses(training.train(data, tmp_path / "a", *stock, *EVERY_5))
    flags = ["--restore-file", tmp_path / "a" / AT_5]
    assert training.losses(training.train(data, tmp_path / "b", *stock, *flags)) == losses[5:]
    # not all tensors: in 0.12.2's layers, some are copies that only inference makes and reads
    name = "encoder.sentence_encoder.embed_tokens.weight"
    one, other = (training.weights(tmp_path / folder / LAST)[name] for folder in "ab")
    assert one.equal(other)


# ---- fairseq-hydra-train with the shipped configs -----------------------------------------------

CONFIGS = REPO / "examples" / "pretraining" / "config"
GLUE = REPO / "examples" / "glue" / "config"
HERE = [
    "+model.encoder_layers=2", "+model.encoder_embed_dim=12", "+model.encoder_ffn_embed_dim=20",
    "+model.encoder_attention_heads=3",
    f"common.user_dir={USER_DIR}", "common.cpu=true", "common.log_format=json",
    "common.log_interval=1", "dataset.num_workers=0", "dataset.data_buffer_size=0",
    "dataset.required_batch_size_multiple=1", "hydra.output_subdir=null", "hydra.run.dir=.",
]  # fmt: skip


@pytest.fixture
def hydra(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # Hydra writes a log into the current folder

    def train(folder, config, data, save_dir, *words):
        where = ["--config-dir", folder, "--config-name", config]
        paths = [f"task.data={data}", f"checkpoint.save_dir={save_dir}"]
        return run_here("fairseq-hydra-train", *where, *HERE, *paths, *words)

    return train


@pytest.fixture
def pretrain(hydra, data):
    def train(config, save_dir, updates, *words):
        words = ["dataset.disable_validation=true", f"optimization.max_update={updates}", *words]
        return hydra(CONFIGS, config, data, save_dir, "dataset.batch_size=4", *words)

    return train


def test_weights_are_those_of_argparse(pretrain, data, tmp_path):
    """The run also resumes and loads."""
    words = ["model.dropout=0.1", "model.tie_cls=true", "lr_scheduler.total_num_update=6"]
    assert len(training.losses(pretrain("tupe_tiny", tmp_path / "a", 6, *words))) == 6
    training.pretrain(
        data, tmp_path / "b", "--rel-pos", "--tokens-per-sample", 128, "--max-positions", 128,
        "--seed", 1, "--warmup-updates", 200, "--total-num-update", 6, "--max-update", 6,
        "--optimizer", "muon", "--lr", 3e-3, "--attention-dropout", 0, "--tie-cls",
    )  # fmt: skip
    training.assert_same_weights(tmp_path / "a" / LAST, tmp_path / "b" / LAST)
    assert len(training.losses(pretrain("tupe_tiny", tmp_path / "a", 8, *words))) == 2
    options = torch.load(tmp_path / "a" / LAST, weights_only=False)["cfg"]["model"]
    assert options["tie_cls"] and options["rel_pos"] and options["_name"] == "tupe_roberta_tiny"
    hub = TupeRobertaModel.from_pretrained(str(tmp_path / "a"), LAST).eval()
    assert hub.extract_features(torch.tensor([0, 5, 6, 2])).shape == (1, 4, 12)


def test_an_encoding_of_the_users(pretrain, tmp_path):
    words = [f"common.user_dir={OWN_DIR}", f"model.position_encoding={NAME}", "model.rel_pos=false"]
    assert len(training.losses(pretrain("tupe_tiny", tmp_path, 2, *words))) == 2
    name = "encoder.sentence_encoder.position_bias.log_slopes"
    assert training.weights(tmp_path / LAST)[name].shape == (3,)


def test_bf16(pretrain, tmp_path):
    losses = [
        training.losses(
            pretrain("tupe_tiny", tmp_path / name, 4, "common.bf16=true", f"optimizer._name={name}")
        )
        for name in ("adam", "fused_adam")
    ]
    assert len(losses[0]) == 4 and all(0 < loss < 20 for loss in losses[0])
    assert losses[1] == losses[0]


def test_muon(pretrain, data, tmp_path):
    words = ["optimizer._name=muon", "+optimizer.muon_lr_ratio=3", "model.dropout=0.1"]
    pretrain("tupe_tiny", tmp_path / "a", 3, *words)
    training.pretrain(
        data, tmp_path / "b", "--rel-pos", "--tokens-per-sample", 128, "--max-positions", 128,
        "--seed", 1, "--warmup-updates", 200, "--total-num-update", 3, "--max-update", 3,
        "--lr", 3e-3, "--attention-dropout", 0, "--optimizer", "muon", "--muon-lr-ratio", 3,
    )  # fmt: skip
    training.assert_same_weights(tmp_path / "a" / LAST, tmp_path / "b" / LAST)


def test_glue(hydra, data, pretrained, tmp_path):
    """The config with the overrides of another task, as the page has them."""
    glue, task = training.write_glue(tmp_path / "glue", "STS-B"), GLUE_TASKS["STS-B"]
    page = (GLUE.parent / "README.md").read_text(encoding="utf-8")
    words = re.search(r"^\| STS-B \| `(.*)` \|$", page, re.MULTILINE)[1].split()
    words += [f"checkpoint.finetune_from_model={pretrained / LAST}", "common.fp16=false"]
    words += ["model.max_positions=16", "optimization.max_update=1"]
    done = hydra(GLUE, "cola", glue, tmp_path / "a", *words)
    assert any(f"valid_{task.selection}" in record for record in training.records(done))
    cfg = torch.load(tmp_path / "a" / LAST, weights_only=False)["cfg"]
    assert cfg["checkpoint"]["best_checkpoint_metric"] == task.selection
    assert cfg["lr_scheduler"]["warmup_updates"] == 108
    assert cfg["task"]["max_positions"] == cfg["model"]["max_positions"] == 16


def test_the_updates_of_glues_tasks_are_the_papers():
    """Of the page's table: 6% of the epochs of the official training sets warm up."""
    rows = {"SST-2": 67349, "MRPC": 3668, "STS-B": 5749, "QQP": 363846, "MNLI": 392702,
            "QNLI": 104743, "RTE": 2490, "WNLI": 635}  # fmt: skip
    page = (GLUE.parent / "README.md").read_text(encoding="utf-8")
    updates = r"^\| (\S+) \| `.* optimization.max_update=(\d+) lr_scheduler.warmup_updates=(\d+)`"
    listed = {name: pair for name, *pair in re.findall(updates, page, re.MULTILINE)}
    assert set(listed) == set(rows)
    for name, pair in listed.items():
        total = GLUE_TASKS[name].epochs * math.ceil(rows[name] / 32)
        assert pair == [str(total), str(round(0.06 * total))], name


def test_a_misspelled_key_is_refused(pretrain, tmp_path, monkeypatch):
    # else Hydra 1.0, which comes with fairseq 0.12.2, fails to print an error on Python 3.10
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(ValueError, match="unknown option tie_clss .* did you mean tie_cls?"):
        pretrain("tupe_tiny", tmp_path / "a", 1, "+model.tie_clss=true")


def test_an_option_of_earlier_versions(pretrain, tmp_path, monkeypatch):
    """Their checkpoints have it, and False is what they computed with."""
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    pretrain("tupe_tiny", tmp_path / "a", 1, "+model.offload_activations=false")
    with pytest.raises(ValueError, match=r"--offload-activations \(True\) does not apply"):
        pretrain("tupe_tiny", tmp_path / "b", 1, "+model.offload_activations=true")
