"""TupeEncoder against the float64 oracle, and what must hold for any input."""

import dataclasses
import json

import pytest
import torch

from helpers import reference
from helpers.tensors import normal
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.modules import TupeMultiheadAttention

BATCH, SEQ_LEN, DIM = 2, 7, 6
SMALL = TupeConfig(
    embed_dim=DIM, num_heads=3, num_layers=2, ffn_embed_dim=5, max_positions=8, dropout=0.0,
    attention_dropout=0.0,
)  # fmt: skip
PADDING = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])


def randomized(config, dtype=torch.float64):
    """An encoder whose parameters are all far from their initial zeros and ones."""
    return normal(TupeEncoder(config).to(dtype)).eval()


def variants():
    for rel_pos in (False, True):
        for tie_cls in (False, True):
            for normalize_before in (False, True):
                options = {"rel_pos": rel_pos, "tie_cls": tie_cls}
                if rel_pos:  # so small that 7 tokens reach the last bucket
                    options.update(rel_pos_buckets=8, max_rel_pos=5)
                name = "-".join(
                    ["tupe_r" if rel_pos else "tupe_a"]
                    + ["tied"] * tie_cls
                    + ["pre_ln"] * normalize_before
                )
                config = dataclasses.replace(SMALL, normalize_before=normalize_before, **options)
                yield pytest.param(config, id=name)


@pytest.mark.parametrize("config", variants())
def test_float64_oracle_outputs_and_gradients(config):
    encoder = randomized(config)
    embeddings = torch.randn(BATCH, SEQ_LEN, DIM, dtype=torch.float64)
    weights = torch.randn(BATCH, SEQ_LEN, DIM, dtype=torch.float64)
    weights[PADDING] = 0
    actual = encoder(embeddings, PADDING)
    (actual * weights).sum().backward()

    params = {n: p.detach().clone().requires_grad_() for n, p in encoder.named_parameters()}
    bias = reference.position_bias(
        reference.sub(params, "position_bias."), SEQ_LEN, config.num_heads, rel_pos=config.rel_pos,
        num_buckets=config.rel_pos_buckets, max_distance=config.max_rel_pos,
        tie_cls=config.tie_cls,
    )  # fmt: skip
    expected = torch.stack(
        [
            reference.encoder(
                params, embeddings[b], PADDING[b], bias, config.num_heads, config.num_layers,
                config.normalize_before,
            )
            for b in range(BATCH)
        ]
    )  # fmt: skip
    (expected * weights).sum().backward()

    torch.testing.assert_close(actual[~PADDING], expected[~PADDING], rtol=0, atol=1e-10)
    for name, parameter in encoder.named_parameters():
        theirs = params[name].grad
        scale = max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(parameter.grad, theirs, rtol=0, atol=1e-10 * scale)
        if config.tie_cls and name.endswith("pos_k_proj.bias"):
            # p_i . b_K is the same for every key, and with no [CLS] reset it cancels throughout
            assert parameter.grad.abs().max() < 1e-12
        else:
            assert parameter.grad.abs().max() > 1e-6, f"{name} has no gradient"


def model_gradients(config):
    """Position gradients through a whole encoder at full length, in float64."""
    encoder = randomized(config)
    x = torch.randn(2, config.max_positions, DIM, dtype=torch.float64)
    (encoder(x) * torch.randn_like(x)).sum().backward()
    return encoder.position_bias


def test_what_cancels_in_the_softmax_gets_no_gradient_and_the_rest_does():
    config = dataclasses.replace(SMALL, max_positions=160, rel_pos=True)
    bias = model_gradients(config)
    table = bias.relative.relative_attention_bias.weight.grad
    cls_bucket = bias.relative.cls_to_other_row
    assert cls_bucket == 16
    pos = bias.untied_absolute.pos.weight.grad
    torch.testing.assert_close(pos[0], torch.zeros_like(pos[0]), rtol=0, atol=1e-12)
    torch.testing.assert_close(table[16], torch.zeros_like(table[16]), rtol=0, atol=1e-12)
    others = torch.cat([table[:16], table[17:]])
    assert (others.abs().min(dim=0).values > 1e-9).all()
    assert (pos[1:].abs().max(dim=1).values > 1e-9).all()
    for name, parameter in bias.named_parameters():
        assert parameter.grad.abs().max() > 1e-9, name


def test_tied_cls_gives_position_0_its_own_gradients():
    config = dataclasses.replace(SMALL, max_positions=160, rel_pos=True, tie_cls=True)
    bias = model_gradients(config)
    pos = bias.untied_absolute.pos.weight.grad
    table = bias.relative.relative_attention_bias.weight.grad
    assert (pos[1:].abs().max(dim=1).values > 1e-9).all()
    assert pos[0].abs().max() == 0
    assert table[16].abs().max() == 0 and table[32].abs().max() == 0


@pytest.mark.parametrize("rel_pos", [False, True], ids=["tupe_a", "tupe_r"])
def test_padding_changes_no_real_token(rel_pos):
    encoder = randomized(dataclasses.replace(SMALL, rel_pos=rel_pos))
    x = torch.randn(1, SEQ_LEN, DIM, dtype=torch.float64)
    padding = torch.tensor([[False] * 4 + [True] * 3])
    alone = encoder(x[:, :4])
    torch.testing.assert_close(encoder(x, padding)[:, :4], alone, rtol=0, atol=1e-12)
    changed = x.clone()
    changed[:, 4:] += 3
    assert encoder(changed, padding)[:, :4].equal(encoder(x, padding)[:, :4])


def test_a_batch_equals_its_rows():
    encoder = randomized(dataclasses.replace(SMALL, rel_pos=True))
    x = torch.randn(BATCH, SEQ_LEN, DIM, dtype=torch.float64)
    rows = [encoder(x[b : b + 1], PADDING[b : b + 1]) for b in range(BATCH)]
    together = encoder(x, PADDING)
    torch.testing.assert_close(together[~PADDING], torch.cat(rows)[~PADDING], rtol=0, atol=1e-12)


def test_without_bias_permuting_tokens_permutes_outputs():
    encoder = randomized(dataclasses.replace(SMALL, rel_pos=True))
    x = torch.randn(BATCH, SEQ_LEN, DIM, dtype=torch.float64)
    order = torch.randperm(SEQ_LEN)
    assert not torch.allclose(encoder(x[:, order]), encoder(x)[:, order])
    encoder.position_bias.forward = lambda seq_len: None
    torch.testing.assert_close(encoder(x[:, order]), encoder(x)[:, order], rtol=0, atol=1e-12)


def test_bias_is_computed_once_and_never_expanded_over_the_batch(monkeypatch):
    encoder = randomized(dataclasses.replace(SMALL, num_layers=5))
    computed, received = [], []
    encoder.position_bias.register_forward_hook(lambda *hook: computed.append(hook[-1]))
    attend = TupeMultiheadAttention.forward

    def spy(self, x, attn_bias, *args):
        received.append(attn_bias)
        return attend(self, x, attn_bias, *args)

    monkeypatch.setattr(TupeMultiheadAttention, "forward", spy)
    encoder(torch.randn(BATCH, SEQ_LEN, DIM, dtype=torch.float64))
    assert len(computed) == 1 and len(received) == 5
    assert all(bias.values is computed[0] for bias in received)
    assert computed[0].shape == (3, SEQ_LEN, SEQ_LEN)


def test_return_all_hiddens():
    x = torch.randn(BATCH, SEQ_LEN, DIM, dtype=torch.float64)
    for normalize_before in (False, True):
        encoder = randomized(dataclasses.replace(SMALL, normalize_before=normalize_before))
        out, hiddens = encoder(x, return_all_hiddens=True)
        assert len(hiddens) == 3
        assert hiddens[0].equal(encoder.layernorm_embedding(x))
        assert out.equal(encoder(x))
        last = encoder.layer_norm(hiddens[-1]) if normalize_before else hiddens[-1]
        assert last.equal(out)


@pytest.mark.parametrize("unpad", [False, True], ids=["padded", "unpad"])
def test_dropout_of_the_embedding(unpad):
    """After its LayerNorm: all of it, or the share that is asked for; none in evaluation."""
    x = torch.randn(60, 8, DIM, dtype=torch.float64)
    padding = torch.arange(8) >= torch.tensor([[5, 8]]).expand(30, 2).reshape(60, 1)
    for p in (1.0, 0.25):
        encoder = randomized(dataclasses.replace(SMALL, dropout=p, unpad=unpad)).train()
        _, (first, *_) = encoder(x, padding, return_all_hiddens=True)
        whole = encoder.layernorm_embedding(x)
        kept = first[~padding] != 0
        # five standard deviations of the mean of so many draws
        assert abs(kept.double().mean() - (1 - p)) <= 5 * (p * (1 - p) / kept.numel()) ** 0.5
        torch.testing.assert_close(first[~padding][kept], whole[~padding][kept] / (1 - p or 1))
        _, (first, *_) = encoder.eval()(x, padding, return_all_hiddens=True)
        torch.testing.assert_close(first[~padding], whole[~padding], rtol=0, atol=1e-12)


def test_the_readme_example():
    assert TupeEncoder(TupeConfig())(torch.randn(8, 100, 128)).shape == (8, 100, 128)


@pytest.mark.parametrize("seq_len", [1, 2, 8])
def test_lengths_up_to_the_limit(seq_len):
    encoder = randomized(dataclasses.replace(SMALL, rel_pos=True))
    assert encoder(torch.randn(1, seq_len, DIM, dtype=torch.float64)).isfinite().all()


def test_too_long_names_both_numbers_and_the_flag():
    encoder = randomized(SMALL)
    with pytest.raises(ValueError, match=r"seq_len \(9\).*max_positions \(8\).*--max-positions"):
        encoder(torch.randn(1, 9, DIM, dtype=torch.float64))


@pytest.mark.parametrize("method", ["forward", "attention_weights"])
@pytest.mark.parametrize("unpad", [False, True], ids=["padded", "unpad"])
@pytest.mark.parametrize("shape", [(1, 7), (3, 7), (2, 6), (2, 8), (7,), (2, 7, 1)], ids=str)
def test_a_mask_of_another_shape_is_refused(shape, unpad, method):
    encoder = randomized(dataclasses.replace(SMALL, unpad=unpad))
    x, mask = torch.randn(BATCH, SEQ_LEN, DIM, dtype=torch.float64), torch.ones(shape).bool()
    with pytest.raises(ValueError) as error:
        getattr(encoder, method)(x, mask)
    assert f"key_padding_mask is {shape}, and the input is (2, 7, 6)" in str(error.value)


@pytest.mark.parametrize(
    "embeddings, message",
    [
        (torch.zeros(7, DIM), r"embeddings are \(7, 6\); expected is \(B, L, embed_dim 6\)"),
        (torch.zeros(2, 7, 1, DIM), r"embeddings are \(2, 7, 1, 6\)"),
        (torch.zeros(2, 7, 8), r"embeddings are \(2, 7, 8\)"),
        (torch.zeros(2, 7, DIM).long(), "torch.int64.*token ids need a word embedding"),
        (torch.zeros(2, 0, DIM), r"no token \(L = 0\)"),
    ],
    ids=["2d", "4d", "width", "tokens", "empty"],
)
@pytest.mark.parametrize("method", ["forward", "attention_weights"])
def test_embeddings_that_are_none_are_refused(embeddings, message, method):
    with pytest.raises(ValueError, match=message):
        getattr(TupeEncoder(SMALL).eval(), method)(embeddings)


def test_left_padding_is_refused_and_padding_elsewhere_is_not():
    encoder = randomized(SMALL)
    x = torch.randn(BATCH, SEQ_LEN, DIM, dtype=torch.float64)
    for method in (encoder, encoder.attention_weights):
        with pytest.raises(ValueError, match="begins with padding.*pad on the right"):
            method(x, PADDING.flip(1))
    inside = torch.tensor([[False] * 7, [False, True, True] + [False] * 4])
    all_padding = torch.tensor([[False] * 7, [True] * 7])
    assert encoder(x, inside).isfinite().all() and encoder(x, all_padding).isfinite().all()


def test_attention_weights_are_refused_in_training_mode():
    with pytest.raises(ValueError, match="without dropout.*call eval"):
        TupeEncoder(SMALL).train().attention_weights(torch.randn(BATCH, SEQ_LEN, DIM))


def test_state_dict_of_other_position_options_is_refused():
    here = TupeEncoder(dataclasses.replace(SMALL, rel_pos=True, max_rel_pos=128))
    there = TupeEncoder(dataclasses.replace(SMALL, rel_pos=True, max_rel_pos=64, tie_cls=True))
    with pytest.raises(ValueError, match="--max-rel-pos is 64 .* 128 .*--tie-cls is True"):
        here.load_state_dict(there.state_dict())
    here.load_state_dict(TupeEncoder(here.config).state_dict())
    state = here.state_dict()
    del state["position_version"]
    with pytest.raises(ValueError, match="tupe-convert"):
        here.load_state_dict(state)


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: torch.nn.Sequential(x)])
def test_a_part_of_a_state_dict(wrap):
    """As adapters and partial warm starts are loaded; what is recorded must still fit."""
    model = wrap(TupeEncoder(SMALL))
    part = {n: x + 1 for n, x in model.state_dict().items() if "fc1" in n}
    missing, unexpected = model.load_state_dict(part, strict=False)
    assert not unexpected and set(missing) == set(model.state_dict()) - set(part)
    assert all(model.state_dict()[name].equal(x) for name, x in part.items())
    tied = wrap(TupeEncoder(dataclasses.replace(SMALL, tie_cls=True))).state_dict()
    with pytest.raises(ValueError, match="--tie-cls is True in the checkpoint"):
        model.load_state_dict(tied, strict=False)


def test_a_strict_load_into_a_model_that_holds_an_encoder_names_what_is_missing():
    model = torch.nn.Sequential(TupeEncoder(SMALL))
    state = model.state_dict()
    del state["0.position_version"]
    with pytest.raises(RuntimeError, match="Missing key.*0.position_version"):
        model.load_state_dict(state)


def test_heads_of_another_number_are_refused():
    """Every shape fits, and the scaling and all scores would differ."""
    config = dataclasses.replace(SMALL, embed_dim=16, num_heads=8)
    two = TupeEncoder(dataclasses.replace(config, num_heads=2)).state_dict()
    with pytest.raises(ValueError, match="--encoder-attention-heads is 2 in .* and 8 in this"):
        TupeEncoder(config).load_state_dict(two)


@pytest.mark.parametrize(
    "record", [b"", b"null", b"3", b"[1]", b"{", b"\xff", b"[" * 100_000, None],
    ids=["empty", "null", "number", "list", "cut", "no text", "nested", "no bytes"],
)  # fmt: skip
def test_a_damaged_record_is_refused(record):
    encoder = TupeEncoder(TupeConfig())
    state = encoder.state_dict()
    values = [300, -1] if record is None else list(record)
    state["position_version"] = torch.tensor(values, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"record of its options \(position_version\) is damaged"):
        encoder.load_state_dict(state)


def test_a_record_without_heads_as_version_0_1_wrote_it():
    encoder = TupeEncoder(SMALL)
    state = encoder.state_dict()
    written = json.dumps(encoder.config.position_options, sort_keys=True)
    state["position_version"] = torch.tensor(list(written.encode()))
    encoder.load_state_dict(state)
    assert encoder.position_version.equal(TupeEncoder(SMALL).position_version)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_position_options_survive_half_precision(dtype):
    config = dataclasses.replace(SMALL, rel_pos=True, max_rel_pos=3001)
    encoder = TupeEncoder(config)
    state = TupeEncoder(config).to(dtype).state_dict()
    encoder.load_state_dict(state)
    # or the whole state dict is cast, as if all of it were weights
    encoder.load_state_dict({name: x.to(dtype) for name, x in state.items()})
    assert encoder.position_version.equal(state["position_version"])


def test_replacing_an_option_replaces_what_follows_from_it():
    shaw = dataclasses.replace(SMALL, position_encoding="shaw")
    with_rel_pos = dataclasses.replace(shaw, position_encoding="tupe", rel_pos=True)
    assert with_rel_pos == dataclasses.replace(SMALL, rel_pos=True)
    assert with_rel_pos.position_options["max_rel_pos"] == 128
    TupeEncoder(dataclasses.replace(with_rel_pos, rel_pos=False))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_layers": 0}, r"num_layers \(0\).*--encoder-layers"),
        ({"embed_dim": 6.0}, r"embed_dim \(6.0\) must be a whole number.*--encoder-embed-dim"),
        ({"dropout": 1.5}, r"dropout \(1.5\).*--dropout"),
        ({"embed_dim": 7}, r"embed_dim \(7\).*num_heads \(3\).*--encoder-attention-heads"),
        ({"activation_fn": "relu6"}, "'relu6'.*gelu"),
        ({"rel_pos_buckets": 16}, r"rel_pos_buckets \(16\).*--rel-pos"),
        ({"max_rel_pos": 64}, r"max_rel_pos \(64\).*--rel-pos"),
        ({"rel_pos": True, "rel_pos_buckets": 7}, r"rel_pos_buckets \(7\) must be even"),
        ({"rel_pos": True, "rel_pos_buckets": 2}, r"rel_pos_buckets \(2\).*at least 4"),
        ({"rel_pos": True, "max_rel_pos": 8}, r"max_rel_pos \(8\).*--max-rel-pos"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        TupeEncoder(dataclasses.replace(SMALL, **options))
