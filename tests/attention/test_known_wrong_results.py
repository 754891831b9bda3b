"""What torch's fused attention is known to get wrong is never requested.

The hazards of a bias as the mask: a mask in another dtype than q's may be misread (pytorch#191612),
cuDNN's kernel has no gradient for it and gives NaN where L % 128 == 64 (pytorch#196678), and a
mask of B x H x L x L costs more memory than the attention it is for.
"""

import pytest
import torch
import torch.nn.functional as F

from helpers.attention_cases import BATCH, HEADS, Request, assert_near, lengths_of, skip_if_refused
from helpers.gpu import needs_gpu
from tupe_fairseq.attention import IMPLEMENTATIONS, Bias, Padding, sdpa, split_qkv

SEQ_LEN = 17
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
DTYPE_IDS = ["fp32", "bf16", "fp16"]
LAYOUTS = [("none", False), ("mixed", False), ("mixed", True), ("empty", True)]
LAYOUT_IDS = ["none", "padded", "packed", "empty-packed"]


@pytest.fixture
def calls(monkeypatch):
    """(q, mask) of each call of torch's function, with whether cuDNN was allowed to serve it."""
    if not hasattr(F, "scaled_dot_product_attention"):
        pytest.skip("this torch has no fused attention")
    seen = []
    real = F.scaled_dot_product_attention

    def spy(q, k, v, attn_mask=None, **options):
        cudnn = getattr(torch.backends.cuda, "cudnn_sdp_enabled", lambda: False)()
        seen.append((q, attn_mask, cudnn))
        return real(q, k, v, attn_mask=attn_mask, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    return seen


def middle(request):
    mask = torch.zeros(BATCH, SEQ_LEN, dtype=torch.bool)
    mask[1, 3:5] = mask[2] = True
    request.real, request.padding = ~mask, Padding(mask)
    request.weights[mask] = 0


@pytest.mark.parametrize("dtype", DTYPES, ids=DTYPE_IDS)
@pytest.mark.parametrize("is_middle", [False, True], ids=["at_end", "in_the_middle"])
@pytest.mark.parametrize("trained", [False, True], ids=["frozen", "trained"])
def test_a_mask_has_the_dtype_of_q(calls, dtype, is_middle, trained):
    request = Request(SEQ_LEN, lengths_of("mixed", SEQ_LEN), dtype=torch.float32)
    if is_middle:
        middle(request)
    qkv, bias = request.leaves()
    bias.requires_grad_(trained)
    out = request.attend("sdpa", qkv.to(dtype), bias)
    assert out.requires_grad
    assert calls and all(mask.dtype == q.dtype == dtype for q, mask, _ in calls)


@pytest.mark.parametrize("name", ["sdpa", "chunked"])
@pytest.mark.parametrize("pattern, packed", LAYOUTS, ids=LAYOUT_IDS)
def test_the_bias_is_never_expanded_over_the_batch_on_the_cpu(calls, name, pattern, packed):
    """Nor is padding written into it: each call gets a corner of the one bias."""
    request = Request(SEQ_LEN, lengths_of(pattern, SEQ_LEN), packed=packed)
    request.answer(name)
    # one call for the whole batch if there is no padding, else one per sequence
    assert len(calls) == (1 if pattern == "none" else sum(n > 0 for n in request.lengths))
    for q, mask, _ in calls:
        length = q.size(2)
        assert mask.shape == (1, HEADS, length, length)
        storage = mask.storage() if not hasattr(mask, "untyped_storage") else mask.untyped_storage()
        assert storage.nbytes() == HEADS * SEQ_LEN**2 * mask.element_size()


def test_no_mask_asks_for_a_gradient_in_the_chunked_forward(calls):
    """torch would leave its fused kernel for the plain one, which keeps probabilities."""
    Request(SEQ_LEN).answer("chunked")
    assert [mask.requires_grad for _, mask, _ in calls] == [False]


@pytest.mark.parametrize("name", list(IMPLEMENTATIONS))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("where", ["at_end", "packed", "in_the_middle"])
def test_a_row_without_any_key_is_finite(name, dtype, where):
    request = Request(
        SEQ_LEN, lengths_of("empty", SEQ_LEN), dtype=torch.float32, packed=where == "packed"
    )
    if where == "in_the_middle":
        middle(request)
    request.qkv = request.qkv.to(dtype)
    qkv, bias = request.leaves()
    is_packed = request.padding.packed
    q, k, v = split_qkv(request.padding.pack(qkv) if is_packed else qkv)
    skip_if_refused(name, q, Bias(bias), request.padding)
    attend = IMPLEMENTATIONS[name].attend
    out = attend(q, k, v, Bias(bias), request.padding, scaling=0.3, dropout=0.0)
    out.float().sum().backward()
    assert out.isfinite().all()
    assert qkv.grad.isfinite().all() and bias.grad.isfinite().all()


def test_cudnn_serves_no_batch_with_a_mask(calls):
    request = Request(SEQ_LEN)
    middle(request)
    before = getattr(torch.backends.cuda, "cudnn_sdp_enabled", lambda: False)()
    request.answer("sdpa")
    assert [cudnn for *_, cudnn in calls] == [False]
    assert getattr(torch.backends.cuda, "cudnn_sdp_enabled", lambda: False)() == before


@pytest.mark.skipif(
    not hasattr(torch.backends.cuda, "cudnn_sdp_enabled"), reason="this torch has no cuDNN kernel"
)
def test_the_context_that_leaves_cudnn_out():
    cuda = torch.backends.cuda
    assert cuda.cudnn_sdp_enabled()
    with sdpa._no_cudnn():
        assert not cuda.cudnn_sdp_enabled()
        assert cuda.mem_efficient_sdp_enabled() and cuda.math_sdp_enabled()
    assert cuda.cudnn_sdp_enabled()


@pytest.mark.parametrize("each", [False, True], ids=["one_bias", "a_bias_for_each"])
def test_the_batch_is_taken_in_parts(calls, monkeypatch, each):
    """On a GPU the gradient of a mask is as large as the mask expanded over the part."""
    monkeypatch.setattr(sdpa, "MASK_ELEMENTS", 3 * HEADS * SEQ_LEN**2)
    request = Request(SEQ_LEN)
    middle(request)
    if each:
        request.bias = torch.randn(BATCH, HEADS, SEQ_LEN, SEQ_LEN, dtype=torch.float64)
    actual = request.answer("sdpa")
    assert [mask.shape[0] for _, mask, _ in calls] == [3, 1]
    assert_near(actual, request.answer("eager"), 1e-13)


@pytest.mark.parametrize("dtype", DTYPES, ids=DTYPE_IDS)
def test_padding_in_a_mask_is_finite(calls, dtype):
    """Some kernels make NaN of a row that holds -inf alone."""
    request = Request(SEQ_LEN, dtype=torch.float32)
    middle(request)
    request.attend("sdpa", request.qkv.to(dtype), request.bias)
    ((_, mask, _),) = calls
    assert mask.isfinite().all() and mask[2].max() < -1e4


def test_the_batch_path_keeps_a_bias_without_padding_one(calls):
    """What a GPU does: the bias travels expanded, never copied."""
    request = Request(SEQ_LEN)
    q, k, v = request.qkv.unbind(2)
    out = sdpa._attend_batch(q, k, v, Bias(request.bias), None, 0.3, 0.0)
    ((_, mask, _),) = calls
    assert mask.shape == (BATCH, HEADS, SEQ_LEN, SEQ_LEN) and mask.stride(0) == 0
    assert mask.data_ptr() == request.bias.data_ptr()
    assert_near([out], request.answer("eager"), 1e-13)


@needs_gpu
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=DTYPE_IDS[1:])
@pytest.mark.parametrize("seq_len", [64, 192, 320, 448])
@pytest.mark.parametrize("pattern, packed", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("name", list(IMPLEMENTATIONS))
def test_lengths_for_which_cudnn_gives_nan(name, pattern, packed, seq_len, dtype):
    lengths = lengths_of(pattern, seq_len) or [seq_len] * BATCH
    mask = torch.arange(seq_len, device="cuda") >= torch.tensor(lengths, device="cuda")[:, None]
    padding = Padding(mask, packed) if mask.any() else None
    # a head_dim that every kernel takes
    qkv = torch.randn(BATCH, seq_len, 3, HEADS, 64, device="cuda", dtype=dtype)
    bias = torch.randn(HEADS, seq_len, seq_len, device="cuda")
    weights = torch.randn(BATCH, seq_len, HEADS, 64, device="cuda") * ~mask[:, :, None, None]

    def answer(name, dtype, padding):
        leaves = qkv.detach().to(dtype, copy=True), bias.detach().clone()
        for leaf in leaves:
            leaf.requires_grad_()
        is_packed = padding is not None and padding.packed
        q, k, v = split_qkv(padding.pack(leaves[0]) if is_packed else leaves[0])
        skip_if_refused(name, q, Bias(leaves[1]), padding)
        attend = IMPLEMENTATIONS[name].attend
        out = attend(q, k, v, Bias(leaves[1]), padding, scaling=1 / 8, dropout=0.0)
        out = padding.unpack(out) if is_packed else out.masked_fill(mask[:, :, None, None], 0)
        (out * weights).sum().backward()
        return out.detach(), leaves[0].grad, leaves[1].grad

    actual = answer(name, dtype, padding)
    assert all(x.isfinite().all() for x in actual)
    plain = Padding(mask) if mask.any() else None
    # 16 bits hold 8 of the fraction, and sums over keys add up a few of the last
    assert_near(actual, answer("eager", torch.float32, plain), 2**-5)
