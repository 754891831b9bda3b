"""fairseq's default --ddp-backend with processes on the CPU."""

import argparse

import pytest
import torch
import torch.distributed as dist
from fairseq.models import distributed_fairseq_model as fairseqs
from torch.nn.parallel import DistributedDataParallel

from tupe_fairseq.plugin.model.cpu_workers import allow_cpu_workers


@pytest.fixture
def alone(tmp_path):
    """A group of this process alone, in which fairseq wraps a model for the CPU."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'met'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def wrapped(model, find_unused_parameters):
    options = dict.fromkeys(["tpu", "broadcast_buffers", "gradient_as_bucket_view"], False)
    args = argparse.Namespace(
        **options, ddp_backend="pytorch_ddp", device_id=0, bucket_cap_mb=25, ddp_comm_hook="none",
        find_unused_parameters=find_unused_parameters, heartbeat_timeout=-1,
    )  # fmt: skip
    return fairseqs.DistributedFairseqModel(args, model, dist.group.WORLD, torch.device("cpu"))


def test_a_model_on_the_cpu_and_layerdrop(alone, monkeypatch):
    monkeypatch.setattr(fairseqs, "DistributedDataParallel", DistributedDataParallel)
    model = torch.nn.Linear(2, 1, bias=False)
    with pytest.raises(ValueError, match="device_ids"):  # else this part is not needed any more
        wrapped(model, False)
    allow_cpu_workers()
    wrapped(model, False)(torch.tensor([[2.0, 3.0]])).sum().backward()
    assert model.weight.grad.tolist() == [[2.0, 3.0]]
    model.args = argparse.Namespace(encoder_layerdrop=0.3)
    wrapped(model, True)
    with pytest.raises(ValueError, match="--encoder-layerdrop 0.3 .* --find-unused-parameters"):
        wrapped(model, False)
