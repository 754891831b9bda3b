"""fairseq trains tupe_roberta: it learns, stops and resumes to the same weights."""

import math
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from socket import socket

import pytest
import torch

from helpers import cli
from tupe_fairseq.options import POSITION_ENCODINGS

EVERY_5 = ["--save-interval-updates", 5, "--keep-interval-updates", -1]
LAST, AT_5 = "checkpoint_last.pt", "checkpoint_1_5.pt"


def test_it_learns(tmp_path):
    data = cli.write_text_data(tmp_path / "data", words=cli.WORDS[:6])
    flags = ["--rel-pos", "--encoder-embed-dim", 64, "--encoder-attention-heads", 4, "--lr", 0.005]
    flags += ["--warmup-updates", 10, "--max-update", 120, "--total-num-update", 120]
    flags += ["--dropout", 0, "--attention-dropout", 0, "--batch-size", 8]
    losses = cli.losses(cli.pretrain(data, tmp_path, *flags))
    # frequencies alone give log2(6); a word is known from those beside it
    assert sum(losses[:5]) / 5 > 3 and sum(losses[-10:]) / 10 < 0.9 * math.log2(6)


@pytest.mark.parametrize("name", POSITION_ENCODINGS)
def test_every_position_encoding(name, data, tmp_path):
    records = cli.pretrain(data, tmp_path, "--position-encoding", name, "--max-update", 3)
    assert len(cli.losses(records)) == 3
    tensors = cli.weights(tmp_path / LAST)
    assert all(torch.isfinite(x).all() for x in tensors.values() if x.is_floating_point())


def test_both_tasks_give_the_same_weights(data, pretrained, tmp_path):
    cli.pretrain(data, tmp_path, "--rel-pos", "--task", "masked_lm")
    cli.assert_same_weights(tmp_path / LAST, pretrained / LAST)


def test_resumed_training_is_the_same(data, pretrained, tmp_path):
    cli.pretrain(data, tmp_path, "--rel-pos", "--max-update", 5)
    records = cli.pretrain(data, tmp_path, "--rel-pos")
    assert len(cli.losses(records)) == 5
    cli.assert_same_weights(tmp_path / LAST, pretrained / LAST)


@pytest.mark.parametrize("task", ["masked_lm", "tupe_masked_lm"])
def test_restore_file(task, data, pretrained, tmp_path):
    path = pretrained / AT_5
    cli.pretrain(data, tmp_path, "--rel-pos", "--restore-file", path, "--task", task)
    cli.assert_same_weights(tmp_path / LAST, pretrained / LAST)


def test_a_killed_training_resumes(data, tmp_path):
    words = ["fairseq-train", data, *cli.MODEL, *cli.PRETRAINING, "--rel-pos", "--max-update", 40]
    words = [*words, *EVERY_5, "--keep-interval-updates", 1]
    cli.run(*words, "--save-dir", tmp_path / "whole")
    command = [
        str(word) for word in [cli.BIN / words[0], *words[1:], "--save-dir", tmp_path / "killed"]
    ]
    process = subprocess.Popen(
        command, env=cli.ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < end:
        if (tmp_path / "killed" / LAST).exists():
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed" / "checkpoint_2_40.pt").exists()
    cli.run(*words, "--save-dir", tmp_path / "killed")
    cli.assert_same_weights(tmp_path / "killed" / LAST, tmp_path / "whole" / LAST)


def _two_processes(data, save_dir, *flags):
    """Two data-parallel processes on the CPU, as two machines start them."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [
        "fairseq-train", data, *cli.MODEL, *cli.PRETRAINING, "--rel-pos", *flags,
        "--save-dir", save_dir, "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp",
        "--distributed-no-spawn", "--distributed-world-size", 2,
        "--distributed-init-method", f"tcp://127.0.0.1:{port}", "--distributed-rank",
    ]  # fmt: skip
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda rank: cli.run(*words, rank), range(2)))


def test_two_processes_are_one_with_the_same_batch(data, tmp_path):
    plain = ["--dropout", 0, "--attention-dropout", 0, "--batch-size", 2]
    cli.pretrain(data, tmp_path / "one", "--rel-pos", *plain, "--update-freq", 2)
    _two_processes(data, tmp_path / "two", *plain, "--max-update", 6)
    _two_processes(data, tmp_path / "two", *plain)
    # the order of sums differs
    cli.assert_same_weights(tmp_path / "one" / LAST, tmp_path / "two" / LAST, atol=2e-6)


def test_stock_roberta_resumes(data, tmp_path):
    """On torch 2.6 and later it does not without our --user-dir."""
    size = ["--encoder-layers", 2, "--encoder-embed-dim", 12, "--encoder-ffn-embed-dim", 20]
    stock = ["--user-dir", cli.USER_DIR, "--arch", "roberta_base", *size]
    stock += ["--encoder-attention-heads", 3, *cli.PRETRAINING, "--task", "masked_lm"]
    losses = cli.losses(cli.train(data, tmp_path / "a", *stock, *EVERY_5))
    flags = ["--restore-file", tmp_path / "a" / AT_5]
    assert cli.losses(cli.train(data, tmp_path / "b", *stock, *flags)) == losses[5:]
    # of 0.12.2's layers, some tensors are copies that only inference makes and reads
    name = "encoder.sentence_encoder.embed_tokens.weight"
    one, other = (cli.weights(tmp_path / folder / LAST)[name] for folder in "ab")
    assert one.equal(other)
