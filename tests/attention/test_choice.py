"""What auto chooses, what it logs, and what a named implementation refuses."""

import logging

import pytest
import torch

from helpers.attention_cases import BATCH, HEAD_DIM, HEADS, as_bias, mask_of
from tupe_fairseq.attention import IMPLEMENTATIONS, NAMES, Padding, check_name, choice

SEQ_LEN = 9
HAS_SDPA = tuple(int(x) for x in torch.__version__.split(".")[:2]) >= (2, 1)
AT_END = Padding(mask_of([9, 4, 0, 1], SEQ_LEN))
IN_THE_MIDDLE = Padding(torch.arange(SEQ_LEN) == torch.tensor([[2], [8], [8], [8]]))


def choose(name, q, bias, padding, dropout):
    return choice.choose(name, q, as_bias(bias), padding, dropout)


def q_and_bias(trained_q=True, trained_bias=True):
    q = torch.randn(BATCH, SEQ_LEN, HEADS, HEAD_DIM, requires_grad=trained_q)
    return q, torch.randn(HEADS, SEQ_LEN, SEQ_LEN, requires_grad=trained_bias)


@pytest.fixture
def messages(caplog):
    """What is logged, with nothing logged before."""
    choice._log.cache_clear()
    caplog.set_level(logging.INFO, logger=choice.__name__)
    yield lambda: [record.getMessage() for record in caplog.records]
    choice._log.cache_clear()


@pytest.mark.parametrize("name", NAMES)
def test_known_names(name):
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["flash", "", "Eager", None])
def test_an_unknown_name_lists_the_good_ones(name):
    with pytest.raises(ValueError, match="--attn-impl is one of auto, eager, sdpa, chunked") as e:
        check_name(name)
    assert repr(name) in str(e.value)


@pytest.mark.parametrize("name", ["eager", "chunked", "sdpa"])
def test_a_named_one_is_taken(name):
    if name == "sdpa" and not HAS_SDPA:
        pytest.skip("this torch has none that takes a scale")
    q, bias = q_and_bias()
    assert choose(name, q, bias, AT_END, 0.1) is IMPLEMENTATIONS[name].attend


def assert_refused(name, reason, q, bias, padding=None):
    with pytest.raises(RuntimeError) as error:
        choose(name, q, bias, padding, 0.0)
    message = str(error.value)
    assert message.startswith(f"--attn-impl {name} does not support this: ")
    assert reason in message and "--attn-impl auto" in message


def test_chunked_refuses_padding_in_the_middle():
    assert_refused("chunked", "padding at the end", *q_and_bias(), IN_THE_MIDDLE)


def test_chunked_refuses_a_bias_for_each_sequence():
    q, bias = q_and_bias()
    message = "of the shape (H, L, L) (q: (4, 9, 3, 5), attn_bias: "
    assert_refused("chunked", message + "(4, 3, 9, 9))", q, bias.expand(BATCH, -1, -1, -1))
    assert_refused("chunked", message + "(3, 9, 1))", q, bias[:, :, :1])


def test_chunked_knows_the_length_of_packed_tokens():
    q, bias = q_and_bias()
    packed = Padding(AT_END.mask, pack=True)
    assert choose("chunked", packed.pack(q), bias, packed, 0.0)
    message = "(H, L, L) (q: (14, 3, 5), attn_bias: (3, 8, 8))"
    assert_refused("chunked", message, packed.pack(q), bias[:, :8, :8], packed)


def test_chunked_refuses_another_device():
    q, bias = (x.to("meta") for x in q_and_bias())
    assert_refused("chunked", "on the CPU only, and the tensors are on meta", q, bias)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_what_follows_the_sizes_of_a_batch_is_not_recorded():
    """Its loops would be those of the first batch, for all others, without a word."""
    q, bias = q_and_bias(False, False)

    def attend(name):
        return lambda q, bias: choose(name, q, bias, None, 0.0)(
            q, q, q, as_bias(bias), None, scaling=1.0, dropout=0.0
        )

    with pytest.raises(RuntimeError, match="chunked does not support this: .*torch.jit.trace"):
        torch.jit.trace(attend("chunked"), (q, bias))
    recorded = torch.jit.trace(attend("auto"), (q, bias))
    more = torch.randn(BATCH + 2, SEQ_LEN, HEADS, HEAD_DIM)
    expected = attend("eager")(more, bias)
    torch.testing.assert_close(recorded(more, bias), expected, rtol=0, atol=1e-5)


@pytest.mark.skipif("triton" not in IMPLEMENTATIONS, reason="no triton implementation here")
def test_triton_refuses_the_cpu(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert_refused("triton", "the tensors are on cpu", *q_and_bias())


@pytest.mark.parametrize("version", ["1.13.1", "2.0.1+cu118"])
def test_sdpa_refuses_an_older_torch(monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    assert_refused("sdpa", f"torch 2.1 or later, and this is {version}", *q_and_bias())


@pytest.mark.parametrize("version", ["2.1.0", "2.13.0+cpu", "3.0.0a0+git1234"])
def test_sdpa_takes_a_later_torch(monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    assert choose("sdpa", *q_and_bias(), None, 0.0) is IMPLEMENTATIONS["sdpa"].attend


WITHOUT_DROPOUT = "sdpa" if HAS_SDPA else "chunked"


@pytest.fixture
def nothing_is_short(monkeypatch):
    """Toy sequences are served as long ones are."""
    monkeypatch.setattr(choice, "FEW_SCORES", 0)


def test_auto_takes_eager_for_short_sequences():
    q, bias = q_and_bias()
    assert choose("auto", q, bias, None, 0.1) is IMPLEMENTATIONS["eager"].attend
    assert choose("auto", q, bias, AT_END, 0.0) is IMPLEMENTATIONS["eager"].attend
    # a single call for the whole batch, however short
    fixed = q.detach(), bias.detach()
    assert choose("auto", *fixed, AT_END, 0.0) is IMPLEMENTATIONS["eager"].attend
    assert choose("auto", *fixed, None, 0.0) is IMPLEMENTATIONS[WITHOUT_DROPOUT].attend
    # 3 heads: from 74 tokens on a loop over the sequences pays
    for length, expected in ((73, "eager"), (74, "chunked")):
        longer = torch.zeros(2, length, 3, 5), torch.zeros(3, length, length, requires_grad=True)
        assert choose("auto", *longer, None, 0.1) is IMPLEMENTATIONS[expected].attend


@pytest.mark.usefixtures("nothing_is_short")
@pytest.mark.parametrize(
    "trained_q, trained_bias, padding, dropout, expected",
    [
        pytest.param(True, True, None, 0.0, "chunked", id="trained"),
        pytest.param(True, True, AT_END, 0.1, "chunked", id="trained-padded-dropout"),
        pytest.param(False, True, None, 0.0, "chunked", id="only_the_bias_trained"),
        pytest.param(True, False, AT_END, 0.0, WITHOUT_DROPOUT, id="frozen_bias"),
        pytest.param(True, False, None, 0.1, "chunked", id="frozen_bias-dropout"),
        pytest.param(False, False, AT_END, 0.0, WITHOUT_DROPOUT, id="evaluation"),
        pytest.param(True, True, IN_THE_MIDDLE, 0.1, "eager", id="trained-middle-dropout"),
        pytest.param(True, True, IN_THE_MIDDLE, 0.0, "eager", id="trained-middle"),
        pytest.param(
            False, False, IN_THE_MIDDLE, 0.0, "sdpa" if HAS_SDPA else "eager", id="eval-middle"
        ),
    ],
)
def test_auto_on_the_cpu(trained_q, trained_bias, padding, dropout, expected):
    q, bias = q_and_bias(trained_q, trained_bias)
    assert choose("auto", q, bias, padding, dropout) is IMPLEMENTATIONS[expected].attend


@pytest.mark.usefixtures("nothing_is_short")
def test_auto_without_a_bias():
    q, _ = q_and_bias()
    assert choose("auto", q, None, None, 0.0) is IMPLEMENTATIONS[WITHOUT_DROPOUT].attend
    assert choose("auto", q, None, None, 0.1) is IMPLEMENTATIONS["chunked"].attend


@pytest.mark.usefixtures("nothing_is_short")
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_auto_without_gradient_mode(mode):
    q, bias = q_and_bias()
    with mode():
        assert choose("auto", q, bias, None, 0.0) is IMPLEMENTATIONS[WITHOUT_DROPOUT].attend


@pytest.mark.usefixtures("nothing_is_short")
def test_auto_passes_a_bias_for_each_sequence_to_eager():
    q, bias = q_and_bias()
    bias = bias.expand(BATCH, -1, -1, -1)
    assert choose("auto", q, bias, None, 0.0) is IMPLEMENTATIONS["eager"].attend


def test_auto_serves_what_a_gpu_asks_for():
    """Tensors of another device, none of which is here: the first that can."""
    q, bias = (x.to("meta") for x in q_and_bias())
    expected = "sdpa" if HAS_SDPA else "eager"
    assert choose("auto", q, bias, None, 0.1) is IMPLEMENTATIONS[expected].attend


@pytest.mark.usefixtures("nothing_is_short")
def test_auto_logs_each_kind_of_request_once(messages):
    q, bias = q_and_bias()
    for _ in range(3):
        choose("auto", q, bias, None, 0.1)
    assert messages() == ["attention on cpu, torch.float32, with gradient: chunked"]
    choose("auto", q.double(), bias.double(), AT_END, 0.1)
    choose("auto", q.detach(), bias.detach(), AT_END, 0.1)
    assert messages()[1:] == [
        "attention on cpu, torch.float64, with gradient: chunked",
        "attention on cpu, torch.float32, without gradient: chunked",
    ]


@pytest.mark.usefixtures("nothing_is_short")
def test_auto_logs_why_it_passed_others_over(messages, monkeypatch):
    choose("auto", *q_and_bias(), IN_THE_MIDDLE, 0.1)
    (message,) = messages()
    assert ": eager; not chunked: it needs all padding at the end" in message
    monkeypatch.setattr(torch, "__version__", "1.13.1")
    choose("auto", *q_and_bias(False, False), None, 0.0)
    assert messages()[1].endswith(
        ": chunked; not sdpa: it needs torch 2.1 or later, and this is 1.13.1"
    )


@pytest.mark.usefixtures("nothing_is_short")
def test_auto_does_not_log_every_shape(messages):
    """A run has thousands; a bias of each sequence's own is one reason for all of them."""
    for seq_len in range(3, 9):
        q = torch.randn(BATCH, seq_len, HEADS, HEAD_DIM, requires_grad=True)
        choose("auto", q, torch.randn(BATCH, HEADS, seq_len, seq_len), None, 0.1)
    assert len(messages()) == 1 and "one attn_bias for the whole batch" in messages()[0]


def test_a_named_one_is_not_logged(messages):
    choose("eager", *q_and_bias(), None, 0.1)
    assert not messages()
