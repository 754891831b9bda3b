"""The bias that layers share: computed when it must be, kept when it may be, never stale."""

import copy
import io
import random
import sys
import threading

import pytest
import torch

from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.modules import SharedBias, shared_bias

BATCH, DIM = 2, 6
SMALL = TupeConfig(
    embed_dim=DIM, num_heads=3, num_layers=2, ffn_embed_dim=5, max_positions=16, dropout=0.0,
    attention_dropout=0.0, rel_pos=True, rel_pos_buckets=8, max_rel_pos=5,
)  # fmt: skip


class Counted:
    """An encoder in evaluation, and how often its position bias was computed."""

    def __init__(self, encoder=None):
        self.encoder = (TupeEncoder(SMALL) if encoder is None else encoder).eval()
        for parameter in self.encoder.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        self.count = 0
        self.encoder.position_bias.register_forward_hook(self._increase)

    def _increase(self, *_):
        self.count += 1

    def __call__(self, seq_len=7, dtype=torch.float32):
        x = torch.randn(BATCH, seq_len, DIM, generator=torch.Generator().manual_seed(seq_len))
        return self.encoder(x.to(dtype))

    def fresh(self, seq_len=7, dtype=torch.float32):
        """The outputs of an encoder of these parameters that has cached nothing."""
        other = TupeEncoder(self.encoder.config).to(dtype).eval()
        other.load_state_dict(self.encoder.state_dict())
        self_encoder, self.encoder = self.encoder, other
        try:
            return self(seq_len, dtype)
        finally:
            self.encoder = self_encoder


@pytest.fixture
def encoder():
    return Counted()


@torch.no_grad()
def test_once_for_all_batches_of_a_length(encoder):
    outputs = [encoder() for _ in range(3)]
    assert encoder.count == 1
    assert outputs[0].equal(outputs[2]) and outputs[0].equal(encoder.fresh())
    encoder(5)
    assert encoder.count == 2
    assert encoder(7).equal(outputs[0]) and encoder(5).equal(encoder.fresh(5))
    assert encoder.count == 2


def test_frozen_positions_are_cached_with_gradient_mode_on(encoder):
    encoder.encoder.position_bias.requires_grad_(False)
    for _ in range(3):
        encoder().sum().backward()
    assert encoder.count == 1


def test_never_used_where_gradients_are_wanted(encoder):
    with torch.no_grad():
        encoder()
    for count in (2, 3):
        encoder().sum().backward()
        assert encoder.count == count
    table = encoder.encoder.position_bias.untied_absolute.pos.weight
    assert table.grad[1:8].abs().min(dim=0).values.all()


@torch.no_grad()
def test_never_used_in_training(encoder):
    encoder()
    encoder.encoder.train()
    encoder()
    encoder()
    assert encoder.count == 3


def by_optimizer(encoder):
    position = encoder.position_bias
    with torch.enable_grad():
        loss = position(7).square().sum()
        grads = torch.autograd.grad(loss, list(position.parameters()))
    for parameter, grad in zip(position.parameters(), grads):
        parameter.grad = grad
    torch.optim.SGD(position.parameters(), lr=0.01).step()


def by_data(encoder):
    """As fairseq's optimizers of half precision and moving averages do; no version changes."""
    table = encoder.position_bias.relative.relative_attention_bias.weight
    version = table._version
    table.data.copy_(torch.randn_like(table))
    assert table._version == version


def by_one_element(encoder):
    # [CLS] as seen by others, in one head
    encoder.position_bias.relative.relative_attention_bias.weight[8, 1] += 5


def by_state_dict(encoder):
    state = encoder.state_dict()
    encoder.load_state_dict(
        {n: torch.randn_like(x) if x.is_floating_point() else x for n, x in state.items()}
    )


def by_assignment(encoder):
    old = encoder.position_bias.untied_absolute.pos.weight
    encoder.position_bias.untied_absolute.pos.weight = torch.nn.Parameter(torch.randn_like(old))


def by_training(encoder):
    encoder.train()
    by_data(encoder)
    encoder.eval()


@pytest.mark.parametrize(
    "change", [by_optimizer, by_data, by_one_element, by_state_dict, by_assignment, by_training]
)
@torch.no_grad()
def test_never_stale(encoder, change):
    before = encoder()
    change(encoder.encoder)
    after = encoder()
    assert not torch.allclose(after, before, rtol=0, atol=1e-4)
    assert after.equal(encoder.fresh())


@torch.no_grad()
def test_other_precisions_and_back(encoder):
    before = encoder()
    encoder.encoder.double()
    out = encoder(dtype=torch.float64)
    assert out.dtype == torch.float64 and out.equal(encoder.fresh(dtype=torch.float64))
    encoder.encoder.float()
    assert encoder().equal(before)
    encoder.encoder.bfloat16()
    rounded = encoder(dtype=torch.bfloat16)
    assert rounded.equal(encoder.fresh(dtype=torch.bfloat16))
    # what was rounded does not come back
    encoder.encoder.float()
    assert encoder().equal(encoder.fresh()) and not encoder().equal(before)


@torch.no_grad()
def test_autocast_has_results_of_its_own(encoder):
    expected = encoder()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = encoder()
    assert not rounded.float().equal(expected)
    assert encoder().equal(expected)
    assert encoder.count == 1


def test_results_of_inference_mode_stay_there(encoder):
    with torch.inference_mode():
        encoder()
        encoder()
    assert encoder.count == 1
    # positions frozen, the rest trained: the bias is saved for the backward pass
    encoder.encoder.position_bias.requires_grad_(False)
    encoder().sum().backward()
    assert encoder.count == 2
    with torch.inference_mode():
        encoder()
    encoder().sum().backward()
    assert encoder.count == 2
    assert all(p.grad.isfinite().all() for p in encoder.encoder.layers.parameters())


@torch.no_grad()
def test_its_size_is_bounded(encoder, monkeypatch):
    monkeypatch.setattr(shared_bias, "SIZE", 3)
    for seq_len in (2, 3, 4, 5):
        encoder(seq_len)
    assert len(encoder.encoder.shared_bias._kept.biases) == 3
    assert encoder.count == 4
    encoder(3)
    assert encoder.count == 4
    # the one not used for longest makes room
    encoder(6)
    encoder(3)
    assert encoder.count == 5
    encoder(4)
    assert encoder.count == 6


@torch.no_grad()
def test_its_bytes_are_bounded(encoder, monkeypatch):
    # one of length 7: 3 heads, float32
    monkeypatch.setattr(shared_bias, "BYTES", 2 * 3 * 7 * 7 * 4)
    for seq_len in (7, 6, 7, 6):
        encoder(seq_len)
    assert encoder.count == 2
    encoder(8)  # and no other fits beside it
    encoder(7)
    assert encoder.count == 4
    encoder(16)  # alone it is more than that, and kept
    encoder(16)
    assert encoder.count == 5


def test_several_threads_compute_with_one_encoder(encoder):
    """As a server does; another thread may drop what this one has just kept."""
    lengths = range(1, 17)
    with torch.no_grad():
        expected = {n: encoder.fresh(n) for n in lengths}
    failures = []

    def compute(seed):
        order = random.Random(seed)
        try:
            with torch.no_grad():
                for _ in range(150):
                    seq_len = order.choice(lengths)
                    assert encoder(seq_len).equal(expected[seq_len])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=compute, args=(n,)) for n in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    finally:
        sys.setswitchinterval(interval)
    assert not failures


def test_files_and_copies_hold_nothing_that_is_kept(encoder):
    def size():
        file = io.BytesIO()
        torch.save(encoder.encoder, file)
        return file.tell()

    encoder.encoder.position_bias._forward_hooks.clear()
    before = size()
    with torch.no_grad():
        encoder(16)
    assert size() == before
    assert copy.deepcopy(encoder.encoder).shared_bias._kept == ([], {})
    assert encoder.encoder.shared_bias._kept.biases


@torch.no_grad()
def test_a_buffer_that_changes_is_noticed(encoder):
    position = encoder.encoder.position_bias
    position.register_buffer("factor", torch.ones(()))
    compute = position.position_bias
    position.position_bias = lambda *args: position.factor * compute(*args)
    before = encoder()
    position.factor.fill_(2)
    assert not torch.allclose(encoder(), before, rtol=0, atol=1e-4)


def hide_parameters(module):
    """As flat parameters and replicas do: tensors remain, under the same names."""
    for part in module.modules():
        part.__dict__.update(part._parameters)
        part._parameters.clear()


def test_hidden_parameters_are_not_taken_for_unchanged_or_frozen(encoder):
    table = encoder.encoder.position_bias.untied_absolute.pos.weight
    hide_parameters(encoder.encoder.position_bias)
    with torch.no_grad():
        before = encoder()
        torch.nn.init.normal_(table)
        assert not torch.allclose(encoder(), before, rtol=0, atol=1e-4)
    encoder().sum().backward()
    assert table.grad.abs().max() > 0


@pytest.mark.skipif(
    not hasattr(torch.nn.Module, "compile"), reason="FSDP of torch 1.13 needs a GPU"
)
def test_sharded_with_flat_parameters(encoder):
    from torch.distributed.fsdp import FullyShardedDataParallel

    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    try:
        plain = copy.deepcopy(encoder.encoder)
        x = torch.randn(BATCH, 7, DIM)
        sharded = FullyShardedDataParallel(encoder.encoder, device_id=torch.device("cpu"))
        for _ in range(2):  # weights change between two evaluations
            with torch.no_grad():
                assert sharded(x).equal(plain(x))
                for parameter in [*sharded.parameters(), *plain.parameters()]:
                    parameter.mul_(1.5)
        for model in (sharded, plain):
            model(x).square().sum().backward()
        (ours,) = sharded.parameters()
        theirs = sum(p.grad.square().sum() for p in plain.parameters())
        torch.testing.assert_close(ours.grad.square().sum(), theirs)
    finally:
        torch.distributed.destroy_process_group()


@torch.no_grad()
def test_a_replica_computes_with_its_own_position_encoding(encoder):
    """nn.DataParallel gives each replica other modules and the original's attributes."""
    replica = copy.copy(encoder.encoder)
    replica._modules = {**encoder.encoder._modules}
    replica._modules["position_bias"] = copy.deepcopy(encoder.encoder.position_bias)
    x = torch.randn(BATCH, 7, DIM)
    assert replica(x).equal(encoder.encoder(x))
    by_data(replica)
    assert not replica(x).equal(encoder.encoder(x))


@torch.no_grad()
def test_nothing_is_kept_through_training(encoder):
    encoder()
    assert encoder.encoder.shared_bias._kept.biases
    encoder.encoder.train()
    assert encoder.encoder.shared_bias._kept == ([], {})


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_deep_copy_is_independent(encoder, mode):
    with mode():
        before = encoder()
    twin = Counted.__new__(Counted)
    twin.encoder, twin.count = copy.deepcopy(encoder.encoder), 0
    with torch.no_grad():
        assert twin().equal(before)
        by_data(twin.encoder)
        assert not twin().equal(before) and twin().equal(twin.fresh())
        assert encoder().equal(before)


def test_it_is_no_part_of_the_state(encoder):
    names = set(encoder.encoder.state_dict())
    with torch.no_grad():
        encoder()
    assert set(encoder.encoder.state_dict()) == names
    # and the position encodings are in it once, under their own name
    tensors = [*encoder.encoder.named_parameters(), *encoder.encoder.named_buffers()]
    assert names <= {name for name, _ in tensors}


def test_without_parameters_a_move_is_noticed():
    """alibi has no parameter to compare."""
    config = TupeConfig(**{**vars(SMALL), "position_encoding": "alibi", "rel_pos": False,
                           "rel_pos_buckets": None, "max_rel_pos": None})  # fmt: skip
    encoder = TupeEncoder(config).eval()
    x = torch.randn(BATCH, 7, DIM)
    with torch.no_grad():
        before = encoder(x)
        double = encoder.double()(x.double())
        assert double.dtype == torch.float64
        torch.testing.assert_close(double.float(), before)
        assert encoder.float()(x).equal(before)
        encoder.to("meta")
        assert encoder(x.to("meta")).device.type == "meta"


def test_alone():
    calls = []

    class Position(torch.nn.Module):
        softmax_invariant_rows = (1,)

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, seq_len):
            calls.append(seq_len)
            return self.weight * torch.ones(1, seq_len, seq_len)

    position = Position()
    shared = SharedBias(position)
    device = torch.device("cpu")
    bias = shared(position, 3, device)
    assert bias.shape == (1, 3, 3)
    bias.values.sum().backward()
    # one of three rows gets none
    assert position.weight.grad.item() == 6
    shared.eval()
    with torch.no_grad():
        first = shared(position, 3, device)
        before = shared_bias._bytes(shared._kept.biases)
        copy_ = shared(position, 3, device).copy_in(torch.float16)
        again = shared(position, 3, device)
    assert calls == [3, 3]
    assert not list(shared.parameters()) and not shared.state_dict()
    assert again is first and again.copy_in(torch.float16) is copy_
    # a copy for kernels counts
    assert shared_bias._bytes(shared._kept.biases) == before + 9 * 2
    assert SharedBias(None)(None, 3, device) is None
