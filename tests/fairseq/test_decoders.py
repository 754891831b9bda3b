"""Decoders: a cache that changes no number, and fairseq's programs with every position encoding."""

import argparse
import math
import subprocess

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from helpers import cli, decoders, reference
from helpers.decoders import CASES, DIM, EOS, HEADS, MAX, PAD, TASK, step_by_step, tokens
from helpers.position_cases import Case
from tupe_fairseq.models.tupe_decoder import check_options
from tupe_fairseq.models.tupe_transformer import TupeTransformer
from tupe_fairseq.models.tupe_transformer_lm import TupeLanguageModel
from tupe_fairseq.position import CATALOGUE

LAST = "checkpoint_last.pt"
#: a table, buckets, a rotation, scores of queries, scores of both
KINDS = [
    Case("tupe", {"rel_pos": True}),
    Case("learned", {}),
    Case("rope", {}),
    Case("shaw", {}),
    Case("disentangled", {}),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
every_kind = pytest.mark.parametrize("case", KINDS, ids=lambda case: case.id)


# ---- Numbers ------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bf16"])
@every_case
def test_the_cache_changes_no_number(case, dtype):
    x = tokens(2, MAX)
    exact = decoders.language_model(case)(x)[0]
    model = decoders.language_model(case, dtype)
    # bf16 rounds by 2^-9: each layer's scores, reaching 10, and some ten sums after them
    atol = 1e-5 * exact.abs().max() if dtype is torch.float32 else 0.1 * exact.abs().max()
    for outputs in (model(x)[0], step_by_step(model.decoder, x)):
        torch.testing.assert_close(outputs.double(), exact, rtol=0, atol=float(atol))


@torch.no_grad()
@every_case
def test_each_step_in_float64(case):
    model, x = decoders.language_model(case), tokens(2, MAX)
    assert_near(step_by_step(model.decoder, x), model(x)[0])


@torch.no_grad()
@every_case
def test_padding_changes_no_number(case):
    """On the left, on the right, and step by step."""
    model, rows = decoders.language_model(case), [tokens(n, seed=n) for n in (7, 4)]
    left, right = torch.full((2, 2, 7), PAD)
    for b, row in enumerate(rows):
        left[b, 7 - len(row) :] = row
        right[b, : len(row)] = row
    on_left, on_right = model(left)[0], model(right)[0]
    by_step = step_by_step(model.decoder, left)
    for b, row in enumerate(rows):
        alone = model(row[None])[0][0]
        assert_near(on_left[b, 7 - len(row) :], alone)
        assert_near(by_step[b, 7 - len(row) :], alone)
        assert_near(on_right[b, : len(row)], alone)


@torch.no_grad()
@every_case
def test_later_tokens_are_not_seen(case):
    model, x = decoders.language_model(case), tokens(2, 7)
    other = x.clone()
    other[:, 4:] = x[:, 4:].flip(1)
    assert model(other)[0][:, :4].equal(model(x)[0][:, :4])
    # and the order of the seen ones counts
    other[:, :3] = x[:, :3].flip(1)
    assert (model(other)[0][:, 3] - model(x)[0][:, 3]).abs().max() > 1e-6


@every_case
def test_outputs_and_gradients_are_the_oracles(case):
    # fairseq's gelu is float32
    model, row = decoders.language_model(case, activation_fn="relu"), tokens(1, 7)
    p = {n: x.detach().clone().requires_grad_() for n, x in model.decoder.named_parameters()}
    added = None
    if case.name == "learned":
        added = p["position.pos.weight"]
    elif case.name == "sinusoidal":
        half = DIM // 2
        angles = [[t * 10000 ** (-n / (half - 1)) for n in range(half)] for t in range(7)]
        vectors = [[*map(math.sin, a), *map(math.cos, a)] for a in angles]
        added = torch.tensor(vectors, dtype=torch.float64)
    weights = torch.randn(7, DIM, dtype=torch.float64)
    expected = decoders.decoder_in_loops(p, case, row[0], added, True, torch.relu)
    (expected * weights).sum().backward()
    actual = model(row, features_only=True)[0][0]
    (actual * weights).sum().backward()
    assert_near(actual, expected, 1e-9)
    for name, parameter in model.decoder.named_parameters():
        if name != "output_projection.weight":
            gradient = p[name].grad if p[name].grad is not None else torch.zeros_like(p[name])
            assert_near(parameter.grad, gradient, 1e-9 * max(1, gradient.abs().max().item()))


@pytest.mark.parametrize("cross", [False, True], ids=["without", "cross-positions"])
def test_cross_attention_is_the_oracles(cross):
    case = Case("tupe", {})
    model = decoders.translator(case, cross_positions=cross)
    source, row = tokens(1, 5), tokens(1, 4, seed=2)
    out = model.encoder(source)
    p = {n: x.detach().clone().requires_grad_() for n, x in model.decoder.named_parameters()}
    scaling = 1 / math.sqrt((2 if cross else 1) * DIM / HEADS)
    own = reference.sub(p, "cross_positions.")

    def projected(kind, position, h):
        x = own["pos.weight"][position + 1]
        x = reference.layer_norm(x, own["pos_ln.weight"], own["pos_ln.bias"])
        weight, bias = (own[f"pos_{kind}_proj.{name}"] for name in ("weight", "bias"))
        return reference.head(reference.linear(x, weight, bias), h, HEADS)

    def logit(h, q, k, i, j):
        score = (q * k).sum()
        if cross:
            score = score + (projected("q", i, h) * projected("k", j, h)).sum()
        return scaling * score

    keys = list(out["encoder_out"][0][:, 0])
    expected = decoders.decoder_in_loops(
        p, case, row[0], None, False, torch.relu, [k.detach() for k in keys], logit
    )
    weights = torch.randn(4, DIM, dtype=torch.float64)
    (expected * weights).sum().backward()
    actual = model.decoder(row, out, features_only=True)[0][0]
    (actual * weights).sum().backward()
    assert_near(actual, expected, 1e-9)
    for name, parameter in model.decoder.named_parameters():
        if p[name].grad is not None and "output_projection" not in name:
            scale = max(1, p[name].grad.abs().max().item())
            assert_near(parameter.grad, p[name].grad, 1e-9 * scale)


@torch.no_grad()
@pytest.mark.parametrize("cross", [False, True], ids=["without", "cross-positions"])
@every_kind
def test_beam_search_scores_are_those_of_the_whole_sequence(case, cross):
    model = decoders.translator(case, torch.float64, cross_positions=cross)
    model.decoder.output_projection.weight[EOS] *= 0.3  # not all too short
    rows = [torch.cat([tokens(n, seed=n), torch.tensor([EOS])]) for n in (3, 7, 5)]
    generator = SequenceGenerator(
        [model], TASK.target_dictionary, beam_size=4, max_len_b=9, normalize_scores=False
    )

    def search(rows):
        longest = max(map(len, rows))
        batch = [torch.cat([torch.full((longest - len(r),), PAD), r]) for r in rows]
        lengths = torch.tensor([len(r) for r in rows])
        net_input = {"src_tokens": torch.stack(batch), "src_lengths": lengths}
        return generator.generate([model], {"net_input": net_input})

    for row, hypotheses in zip(rows, search(rows)):
        alone = search([row])[0]
        assert len(hypotheses) == 4
        for one, other in zip(hypotheses, alone):
            assert one["tokens"].equal(other["tokens"])
            y = one["tokens"]
            prev = torch.cat([torch.tensor([EOS]), y[:-1]])
            logits = model(row[None], torch.tensor([len(row)]), prev[None])[0][0]
            score = logits.log_softmax(-1).gather(1, y[:, None]).sum()
            assert float(one["score"]) == pytest.approx(float(score), abs=1e-4)  # kept in float32


@torch.no_grad()
@every_kind
def test_reordered_rows_go_on_as_their_own(case):
    model, x = decoders.language_model(case), tokens(3, 8)
    state, order = {}, torch.tensor([2, 0, 0, 1])
    for n in range(5):
        model.decoder(x[:, : n + 1], incremental_state=state)
    model.decoder.reorder_incremental_state_scripting(state, order)
    x = x[order]
    for n in range(5, 8):
        out = model.decoder(x[:, : n + 1], incremental_state=state)[0]
        assert_near(out[:, -1], model(x[:, : n + 1])[0][:, -1])


@torch.no_grad()
def test_a_step_computes_one_row_of_the_bias():
    model, x, shapes = decoders.language_model(KINDS[0]), tokens(2, MAX), []
    hook = model.decoder.position.register_forward_hook(
        lambda module, args, bias: shapes.append(tuple(bias.shape))
    )
    step_by_step(model.decoder, x)
    hook.remove()
    assert shapes == [(HEADS, 1, n + 1) for n in range(MAX)]


@every_kind
def test_activation_checkpointing_changes_no_gradient(case):
    plain = decoders.translator(case, cross_positions=True)
    other = decoders.translator(case, cross_positions=True, checkpoint_activations=True)
    other.load_state_dict(plain.state_dict())
    source, row = tokens(2, 5), tokens(2, 4, seed=2)
    for model in (plain, other):
        model.train()
        model(source, torch.tensor([5, 5]), row)[0].pow(2).sum().backward()
    for (name, ours), theirs in zip(plain.named_parameters(), other.parameters()):
        assert (ours.grad is None) == (theirs.grad is None), name
        if ours.grad is not None:
            assert_near(ours.grad, theirs.grad, 1e-9 * max(1, ours.grad.abs().max().item()))


@every_kind
def test_parameters_are_registered_once(case):
    model = decoders.translator(case, cross_positions=True, share_all_embeddings=True)
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    tied = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
    shared = [n for n in names if n in tied or n == "decoder.output_projection.weight"]
    assert len(names) - len(list(model.parameters())) == len(shared) - 1 == 2
    other = decoders.translator(case, cross_positions=True, share_all_embeddings=True)
    other.load_state_dict(model.state_dict())


def assert_near(actual, expected, atol=1e-10):
    torch.testing.assert_close(actual, expected, rtol=0, atol=float(atol))


# ---- fairseq's programs -------------------------------------------------------------------------

OPTIMIZATION = [
    *cli.OPTIMIZATION, "--user-dir", cli.USER_DIR, "--max-update", 10, "--no-epoch-checkpoints",
    "--dropout", 0,
]  # fmt: skip
SIZE = ["--decoder-layers", 2, "--decoder-embed-dim", DIM, "--decoder-attention-heads", HEADS]
LM = [
    *OPTIMIZATION, *SIZE, "--arch", "tupe_transformer_lm_tiny", "--batch-size", 4,
    "--task", "tupe_language_modeling", "--sample-break-mode", "none", "--tokens-per-sample", 16,
]  # fmt: skip
MT = [
    *OPTIMIZATION, *SIZE, *[str(w).replace("decoder", "encoder") for w in SIZE],
    "--arch", "tupe_transformer_tiny", "--task", "tupe_translation", "--batch-size", 8,
    "--share-all-embeddings", "--source-lang", "en", "--target-lang", "de",
]  # fmt: skip


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Translation data by fairseq-preprocess: the words of a sentence backwards."""
    folder = tmp_path_factory.mktemp("pairs")
    for split, number in (("train", 200), ("valid", 20)):
        rows = [[f"w{int(n)}" for n in tokens(3 + k % 4, seed=k)] for k in range(number)]
        (folder / f"{split}.en").write_text("".join(" ".join(row) + "\n" for row in rows))
        (folder / f"{split}.de").write_text("".join(" ".join(row[::-1]) + "\n" for row in rows))
    cli.run(
        "fairseq-preprocess", "--source-lang", "en", "--target-lang", "de", "--joined-dictionary",
        "--trainpref", folder / "train", "--validpref", folder / "valid", "--destdir",
        folder / "data",
    )  # fmt: skip
    return folder / "data"


@pytest.fixture(scope="module")
def trained_lm(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm")
    cli.train(data, folder, *LM, "--rel-pos")
    return folder


@every_case
def test_every_position_encoding_trains(case, data, tmp_path):
    flags = ["--position-encoding", case.name, "--max-update", 3]
    flags += ["--rel-pos"] * case.options.get("rel_pos", False)
    flags += ["--symmetric-basis"] * case.options.get("symmetric_basis", False)
    assert len(cli.losses(cli.train(data, tmp_path, *LM, *flags))) == 3


def test_fairseqs_own_task_gives_the_same_weights(data, trained_lm, tmp_path):
    cli.train(data, tmp_path, *LM, "--rel-pos", "--task", "language_modeling")
    cli.assert_same_weights(tmp_path / LAST, trained_lm / LAST)


def test_a_resumed_training_is_the_same(data, trained_lm, tmp_path):
    cli.train(data, tmp_path, *LM, "--rel-pos", "--max-update", 5)
    cli.train(data, tmp_path, *LM, "--rel-pos")
    cli.assert_same_weights(tmp_path / LAST, trained_lm / LAST)


def test_a_language_model_is_evaluated_and_goes_on(data, trained_lm):
    words = [data, "--user-dir", cli.USER_DIR, "--path", trained_lm / LAST, "--cpu"]
    printed = cli.run("fairseq-eval-lm", *words, "--gen-subset", "valid").stdout
    assert "Perplexity" in printed
    process = subprocess.run(
        [str(w) for w in (cli.BIN / "fairseq-interactive", *words, "--task",
                          "tupe_language_modeling", "--beam", 2, "--max-len-b", 9)],
        input="w1 w2 w3\nw4\n", text=True, capture_output=True, env=cli.ENV, check=True,
    )  # fmt: skip
    going_on = [line.split("\t")[2] for line in process.stdout.splitlines() if line[:2] == "H-"]
    assert [text.startswith(first) for text, first in zip(going_on, ("w1 w2 w3", "w4"))] == [
        True
    ] * 2
    hub = TupeLanguageModel.from_pretrained(str(trained_lm), LAST)
    assert hub.sample(["w1 w2 w3", "w4"], beam=2, max_len_b=9) == going_on


def test_translation(pairs, tmp_path):
    # cross positions say which word comes next, so that this is soon learned
    flags = ["--cross-positions", "--lr", 5e-3, "--max-update", 250, "--total-num-update", 250]
    flags += ["--encoder-embed-dim", 48, "--decoder-embed-dim", 48]
    records = cli.train(pairs, tmp_path, *MT, *flags)
    assert sum(cli.losses(records)[-10:]) < 0.5 * sum(cli.losses(records)[:10])
    hub = TupeTransformer.from_pretrained(str(tmp_path), LAST)
    words = ["--user-dir", cli.USER_DIR, "--path", tmp_path / LAST, "--cpu", "--beam", 3]
    printed = cli.run("fairseq-generate", pairs, *words, "--gen-subset", "valid").stdout
    lines = dict(line.split("\t", 1) for line in printed.splitlines() if line[:2] in ("S-", "H-"))
    for number in range(3):
        found = hub.translate(lines[f"S-{number}"], beam=3)
        assert found == lines[f"H-{number}"].split("\t")[1]


ADAPTIVE = ["--criterion", "adaptive_loss", "--ddp-backend", "legacy_ddp"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--decoder-layerdrop", 0.5],
        ["--adaptive-softmax-cutoff", "10,20", *ADAPTIVE],
        ["--checkpoint-activations", "--layernorm-embedding"],
    ],
    ids=lambda flags: flags[0],
)
def test_flags_of_fairseq(flags, data, tmp_path):
    losses = cli.losses(cli.train(data, tmp_path, *LM, *flags, "--rel-pos", "--max-update", 3))
    assert len(losses) == 3 and all(map(math.isfinite, losses))


def test_an_average_of_checkpoints_loads(data, trained_lm, tmp_path):
    from fairseq import checkpoint_utils

    # as fairseq's script does: sums of tensors, divided by their number, integers rounding down
    state = torch.load(trained_lm / LAST, weights_only=True)
    for name, x in state["model"].items():
        state["model"][name] = (x + x) / 2 if x.is_floating_point() else (x + x) // 2
    torch.save(state, tmp_path / "average.pt")
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
        [str(tmp_path / "average.pt")], arg_overrides={"data": str(data)}
    )
    assert model.decoder.config.rel_pos


# ---- Refusals -----------------------------------------------------------------------------------

REFUSED = {
    "another encoding": (["--position-encoding", "none"], "--position-encoding is tupe in the"),
    "another size": (["--decoder-ffn-embed-dim", 20], "give the checkpoint's --arch, sizes"),
    "an option of others": (["--symmetric-basis"], "'tupe' does not take symmetric_basis"),
    "learned positions": (["--decoder-learned-pos"], "--decoder-learned-pos (True) does not apply"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what, data, trained_lm, tmp_path):
    flags, reason = REFUSED[what]
    rel_pos = [] if "--symmetric-basis" in flags else ["--rel-pos"]
    with pytest.raises(ValueError) as error:
        cli.train(data, tmp_path, *LM, *rel_pos, *flags, "--restore-file", trained_lm / LAST)
    assert reason in str(error.value)


def test_refused_in_translation(pairs, tmp_path):
    with pytest.raises(ValueError, match=r"--cross-self-attention \(True\) does not apply"):
        cli.train(pairs, tmp_path, *MT, "--cross-self-attention")


def test_an_encoding_of_ones_own_that_transforms_and_reads_keys(monkeypatch):
    class Both(CATALOGUE["rope"]):
        content_bias = CATALOGUE["shaw"].content_bias

    monkeypatch.setitem(CATALOGUE, "both", Both)
    with pytest.raises(ValueError, match="decoders do not take position encoding 'both'"):
        decoders.language_model(Case("both", {}))


def test_samples_above_the_longest(data, tmp_path):
    message = r"--tokens-per-sample \(16\) is above --max-target-positions \(9\)"
    with pytest.raises(ValueError, match=message):
        cli.train(data, tmp_path, *LM, "--max-target-positions", 9)
    model = decoders.translator(KINDS[0])
    with pytest.raises(ValueError, match=rf"14 tokens, .* --max-target-positions \({MAX + 2}\)"):
        model(tokens(1, 3), None, tokens(1, 14))
    with pytest.raises(ValueError, match=rf"12 tokens, .* --max-source-positions \({MAX}\)"):
        model(tokens(1, 12), None, tokens(1, 3))


def test_from_pretrained_builds_no_other_model(trained_lm, tmp_path):
    state = torch.load(trained_lm / LAST, weights_only=True)
    for key, value in (("model", "lightconv_lm"), ("task", "masked_lm")):
        changed = {**state, "cfg": {**state["cfg"], key: {**state["cfg"][key], "_name": value}}}
        if key == "model":
            changed["cfg"]["model"]["arch"] = value
        torch.save(changed, tmp_path / "other.pt")
        with pytest.raises(ValueError, match=f"is refused.*{value}"):
            TupeLanguageModel.from_pretrained(str(tmp_path), "other.pt")


def test_no_option_is_evaluated():
    args = argparse.Namespace(adaptive_softmax_cutoff="__import__('os').abort()")
    with pytest.raises(ValueError, match="must be numbers"):
        check_options(args)
