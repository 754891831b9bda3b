"""How long the processes of a training wait for each other."""

import subprocess

import pytest
from fairseq.distributed import utils as distributed

from helpers.running import ENV
from helpers.training import PRETRAINING, free_port
from tupe_fairseq.plugin.model.rendezvous_limit import limit_rendezvous


def test_the_other_one_never_comes(data, tmp_path, shim_folder):
    words = [
        f"{shim_folder}/fairseq-train", data, *PRETRAINING, "--save-dir", tmp_path,
        "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp", "--distributed-no-spawn",
        "--distributed-world-size", 2, "--distributed-rank", 1,
        "--distributed-init-method", f"tcp://127.0.0.1:{free_port()}",
    ]  # fmt: skip
    process = subprocess.run(
        [str(word) for word in words], env={**ENV, "TUPE_RENDEZVOUS_SECONDS": "0.5"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200,
    )  # fmt: skip
    assert process.returncode == 1
    said = process.stdout
    assert "rank 1 of 2 waits for the others at tcp://127.0.0.1:" in said
    assert "0.5 seconds at most" in said and "TUPE_RENDEZVOUS_SECONDS" in said
    assert said.index("at most") < said.index("Timeout (0:00:00.5")


@pytest.mark.parametrize("seconds", ["soon", "-1", "nan"])
def test_no_number_of_seconds(seconds, monkeypatch):
    monkeypatch.setenv("TUPE_RENDEZVOUS_SECONDS", seconds)
    monkeypatch.setattr(distributed, "distributed_init", distributed.distributed_init)
    limit_rendezvous()
    with pytest.raises(ValueError, match=f"TUPE_RENDEZVOUS_SECONDS={seconds} .* not a number"):
        distributed.distributed_init(None)
