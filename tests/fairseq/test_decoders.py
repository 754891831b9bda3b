"""Decoders: the cache changes no number; fairseq's programs run with every position encoding."""

import argparse
import math
import re
from unittest import mock

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from omegaconf import OmegaConf

from helpers import reference, training
from helpers.position_cases import ALL, Case, Operations, assert_near, randomize
from helpers.running import USER_DIR, run_here
from helpers.training import assert_same_weights, losses, train
from tupe_fairseq.models.tupe_decoder import check_options
from tupe_fairseq.models.tupe_transformer import TupeTransformer, tupe_architecture
from tupe_fairseq.models.tupe_transformer_lm import TupeLanguageModel, tupe_lm_architecture
from tupe_fairseq.position import CATALOGUE

LAST = "checkpoint_last.pt"
# all different, so that a wrong axis fails; a head of even width, as rope needs
DIM, HEADS, FFN, MAX = 12, 3, 10, 11
SIZES = {"layers": 2, "embed_dim": DIM, "attention_heads": HEADS, "ffn_embed_dim": FFN}
#: the position encodings with the options that decoders take
CASES = [case for case in ALL if not {"tie_cls", "untie_cls"} & set(case.options)]
#: a table and buckets, vectors, a rotation, scores of queries, scores of both
KINDS = [
    Case("tupe", {"rel_pos": True}),
    Case("learned", {}),
    Case("rope", {}),
    Case("shaw", {}),
    Case("disentangled", {}),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
every_kind = pytest.mark.parametrize("case", KINDS, ids=lambda case: case.id)


class Task:
    """The part of a task that a model needs."""

    source_dictionary = target_dictionary = Dictionary()
    for number in range(19):
        source_dictionary.add_symbol(f"w{number}")


DICTIONARY = Task.source_dictionary
PAD, EOS = DICTIONARY.pad(), DICTIONARY.eos()


def language_model(case, dtype=torch.float64, **options):
    args = argparse.Namespace(
        **{f"decoder_{name}": size for name, size in SIZES.items()}, dropout=0.0,
        max_target_positions=MAX, position_encoding=case.name, **{**case.options, **options},
    )  # fmt: skip
    tupe_lm_architecture(args)
    return randomize(TupeLanguageModel.build_model(args, Task).double()).to(dtype).eval()


def translator(case, **options):
    sizes = {f"{side}_{name}": SIZES[name] for side in ("encoder", "decoder") for name in SIZES}
    args = argparse.Namespace(
        **sizes, dropout=0.0, max_source_positions=MAX, max_target_positions=MAX + 2,
        position_encoding=case.name, **{**case.options, **options},
    )  # fmt: skip
    tupe_architecture(args)
    return randomize(TupeTransformer.build_model(args, Task).double()).eval()


def tokens(*shape, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, len(DICTIONARY), shape, generator=generator)


def step_by_step(decoder, x):
    """The outputs of incremental decoding, one token at a time."""
    state = {}
    steps = [decoder(x[:, : n + 1], incremental_state=state)[0] for n in range(x.size(1))]
    return torch.cat(steps, dim=1)


# ---- Numbers ------------------------------------------------------------------------------------


@torch.no_grad()
@every_case
def test_the_cache_changes_no_number(case):
    x = tokens(2, MAX)
    exact = language_model(case)(x)[0]
    largest = float(exact.abs().max())
    # bf16 rounds by 2^-9: in each layer the scores, of up to 10, and about ten sums after them
    for dtype, atol in ((torch.float64, 1e-10), (torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        model = language_model(case, dtype)
        for outputs in (model(x)[0], step_by_step(model.decoder, x)):
            assert_near(outputs.double(), exact, max(1, largest) * atol)


@torch.no_grad()
@pytest.mark.parametrize("name", CATALOGUE)
def test_one_mask_for_all_layers_and_none_where_a_kernel_is_causal(name):
    """A step without padding reads no position from the device."""
    model, x = language_model(Case(name, {}), torch.bfloat16), tokens(2, 5)
    with Operations() as whole:
        model(x)
    needs_none = name in ("learned", "sinusoidal", "none", "rope", "pope")
    assert sum("aten.masked_fill" in x for x in whole.names) == (0 if needs_none else 1)
    with Operations() as steps:
        step_by_step(model.decoder, x)
    assert not [x for x in steps.names if "unique" in x or "aminmax" in x]


@torch.no_grad()
def test_a_source_unpacks_hidden_states_only_if_they_are_asked_for():
    encoder, source = translator(Case("tupe", {})).encoder, tokens(2, 7)
    source[1, :3] = PAD
    counts = []
    for kept in (False, True):
        with Operations() as ran:
            out = encoder(source, return_all_hiddens=kept)
        assert len(out["encoder_states"]) == 3 * kept
        counts.append(sum("index_copy" in name for name in ran.names))
    assert counts[1] == counts[0] + 3


def test_each_side_takes_its_own_options():
    for own, other, options in (
        ("rope", "tupe", {"rel_pos": True}),
        ("tupe", "shaw", {"max_rel_pos": 5}),
        ("none", "enformer", {"rel_pos": True, "symmetric_basis": True}),
    ):
        for name, encoder in ((own, other), (other, own)):
            model = translator(Case(name, options), encoder_position_encoding=encoder)
            sides = {name: model.decoder.config, encoder: model.encoder.stack.config}
            for option, value in options.items():
                takers = [side for side, config in sides.items() if getattr(config, option)]
                assert takers == [other if option != "rel_pos" or own == "rope" else own], value
    with pytest.raises(ValueError, match="'alibi' does not take rel_pos|'rope' does not take rel"):
        translator(Case("rope", {"rel_pos": True}), encoder_position_encoding="alibi")


@torch.no_grad()
@every_kind
def test_padding_changes_no_number(case):
    """On the left, on the right, and step by step."""
    model, rows = language_model(case), [tokens(n, seed=n) for n in (7, 4)]
    left, right = torch.full((2, 2, 7), PAD)
    for b, row in enumerate(rows):
        left[b, 7 - len(row) :] = row
        right[b, : len(row)] = row
    on_left, on_right, by_step = model(left)[0], model(right)[0], step_by_step(model.decoder, left)
    for b, row in enumerate(rows):
        alone = model(row[None])[0][0]
        assert_near(on_left[b, 7 - len(row) :], alone, 1e-10)
        assert_near(by_step[b, 7 - len(row) :], alone, 1e-10)
        assert_near(on_right[b, : len(row)], alone, 1e-10)


def leaves(model):
    named = model.decoder.named_parameters()
    return {name: p.detach().clone().requires_grad_() for name, p in named}


def assert_as_in_loops(model, p, actual, expected):
    """Compare features, and the gradients of all parameters that have one."""
    weights = torch.randn(actual.shape, dtype=torch.float64)
    (expected * weights).sum().backward()
    (actual * weights).sum().backward()
    assert_near(actual, expected, 1e-9)
    for name, parameter in model.decoder.named_parameters():
        gradient = torch.zeros_like(p[name]) if p[name].grad is None else p[name].grad
        ours = torch.zeros_like(p[name]) if parameter.grad is None else parameter.grad
        assert_near(ours, gradient, 1e-9 * max(1, gradient.abs().max().item()))


def decoder_in_loops(p, case, row, pre_ln, max_positions, **cross):
    """The features of one sequence of tokens."""
    x = [math.sqrt(DIM) * p["embed_tokens.weight"][token] for token in row]
    if case.name == "learned":
        x = [t + u for t, u in zip(x, p["position.pos.weight"])]
    elif case.name == "sinusoidal":
        vectors = [reference.sinusoid(t, DIM) for t in range(len(x))]
        x = [t + u for t, u in zip(x, torch.tensor(vectors, dtype=torch.float64))]

    def logit_of(number):
        own = reference.position_parameters(p, number, "position.")
        options = {**case.options, "tie_cls": True}
        entry = reference.Entry(own, DIM, HEADS, max_positions, case.name, options, causal=True)
        return lambda h, q, k, i, j: entry.logit(h, q, k, i, j) if j <= i else None

    return reference.transformer(p, x, HEADS, pre_ln, torch.relu, logit_of, **cross)


@every_case
def test_outputs_and_gradients_are_the_oracles(case):
    # fairseq's gelu is float32
    model, row = language_model(case, activation_fn="relu"), tokens(1, 7)
    p = leaves(model)
    expected = decoder_in_loops(p, case, row[0], True, MAX)
    assert_as_in_loops(model, p, model(row, features_only=True)[0][0], expected)


@pytest.mark.parametrize("cross", [False, True], ids=["without", "cross-positions"])
def test_cross_attention_is_the_oracles(cross):
    case = Case("tupe", {})
    model = translator(case, cross_positions=cross)
    source, row = tokens(1, 5), tokens(1, 4, seed=2)
    with torch.no_grad():
        out = model.encoder(source)
    p = leaves(model)
    own = reference.sub(p, "cross_positions.")

    def projected(kind, position, h):
        x = reference.layer_norm(own["pos.weight"][position + 1], own, "pos_ln")
        return reference.head(reference.linear(x, own, f"pos_{kind}_proj"), h, HEADS)

    def logit(h, q, k, i, j):
        score = q @ k + (projected("q", i, h) @ projected("k", j, h) if cross else 0)
        return score / math.sqrt((2 if cross else 1) * DIM / HEADS)

    keys = list(out["encoder_out"][0][:, 0])
    of_source = {"source": keys, "cross_logit": logit}
    expected = decoder_in_loops(p, case, row[0], False, MAX + 2, **of_source)
    assert_as_in_loops(model, p, model.decoder(row, out, features_only=True)[0][0], expected)


@torch.no_grad()
@every_kind
def test_beam_search_scores_are_those_of_the_whole_sequence(case):
    model = translator(case, cross_positions=True)
    model.decoder.output_projection.weight[EOS] *= 0.3  # so that not all end early
    rows = [torch.cat([tokens(n, seed=n), torch.tensor([EOS])]) for n in (3, 7, 5)]
    generator = SequenceGenerator(
        [model], DICTIONARY, beam_size=4, max_len_b=9, normalize_scores=False
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
            assert float(one["score"]) == pytest.approx(float(score), abs=1e-4)  # stored in float32


@every_kind
def test_activation_checkpointing_and_shared_embeddings(case):
    """Checkpointing changes no gradient; sharing registers no parameter twice."""
    options = {"cross_positions": True, "share_all_embeddings": True}
    plain = translator(case, **options)
    other = translator(case, checkpoint_activations=True, **options)
    names = [name for name, _ in plain.named_parameters(remove_duplicate=False)]
    assert len(names) - len(list(plain.parameters())) == 2  # encoder, decoder and outputs share one
    other.load_state_dict(plain.state_dict())
    words = torch.zeros(len(DICTIONARY), DIM, dtype=torch.float64)
    untied = {**plain.state_dict(), "decoder.output_projection.weight": words}
    with pytest.raises(ValueError, match="are two matrices in the checkpoint and one in this"):
        other.load_state_dict(untied)
    source, row = tokens(2, 5), tokens(2, 4, seed=2)
    for model in (plain, other):
        model.train()
        model(source, torch.tensor([5, 5]), row)[0].pow(2).sum().backward()
    for (name, ours), theirs in zip(plain.named_parameters(), other.parameters()):
        assert (ours.grad is None) == (theirs.grad is None), name
        if ours.grad is not None:
            assert_near(ours.grad, theirs.grad, 1e-9 * max(1, ours.grad.abs().max().item()))


# ---- fairseq's programs -------------------------------------------------------------------------

OPTIMIZATION = [
    *training.OPTIMIZATION, *training.DECAY, "--user-dir", USER_DIR, "--max-update", 10,
    "--no-epoch-checkpoints", "--dropout", 0,
]  # fmt: skip
# workers that read ahead delay the end of a program by seconds
EVALUATION = ["--user-dir", USER_DIR, "--cpu", "--num-workers", 0]
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
    run_here(
        "fairseq-preprocess", "--source-lang", "en", "--target-lang", "de", "--joined-dictionary",
        "--trainpref", folder / "train", "--validpref", folder / "valid", "--destdir",
        folder / "data",
    )  # fmt: skip
    return folder / "data"


@pytest.fixture(scope="module")
def trained_lm(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm")
    train(data, folder, *LM, "--rel-pos")
    return folder


def test_the_order_of_parameters_as_optimizer_states_in_checkpoints_have_it():
    names = [name for name, _ in language_model(Case("transformer-xl", {})).named_parameters()]
    start = "decoder.layers.0.self_attn."
    assert [name.removeprefix(start) for name in names if name.startswith(start)] == [
        "position.global_content_bias", "position.global_position_bias",
        "position.pos_k_proj.weight", "k_proj.weight", "k_proj.bias", "v_proj.weight",
        "v_proj.bias", "q_proj.weight", "q_proj.bias", "out_proj.weight", "out_proj.bias",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "flags",
    [
        ["--adaptive-softmax-cutoff", "10,20", "--criterion", "adaptive_loss", "--ddp-backend",
         "legacy_ddp"],
        ["--checkpoint-activations", "--layernorm-embedding"],
        ["--add-bos-token"],
    ],
    ids=lambda flags: flags[0][2:],
)  # fmt: skip
def test_further_flags_train(flags, data, tmp_path):
    found = losses(train(data, tmp_path, *LM, *flags, "--max-update", 3))
    assert len(found) == 3 and all(map(math.isfinite, found))


def test_a_training_resumes_with_fairseqs_own_task_to_the_same(data, trained_lm, tmp_path):
    train(data, tmp_path, *LM, "--rel-pos", "--max-update", 5)
    train(data, tmp_path, *LM, "--rel-pos", "--task", "language_modeling")
    assert_same_weights(tmp_path / LAST, trained_lm / LAST)


def test_a_trained_language_model_is_evaluated_and_goes_on(data, trained_lm, tmp_path):
    words = [data, *EVALUATION, "--path", trained_lm / LAST]
    evaluated = ["--gen-subset", "valid", "--tokens-per-sample", 16]
    printed = run_here("fairseq-eval-lm", *words, *evaluated).stdout
    assert re.search("Evaluated [1-9]", printed) and "Perplexity" in printed
    (tmp_path / "text").write_text("w1 w2 w3\nw4\n")
    words += ["--task", "tupe_language_modeling", "--beam", 2, "--max-len-b", 9]
    printed = run_here("fairseq-interactive", *words, "--input", tmp_path / "text").stdout
    going_on = [line.split("\t")[2] for line in printed.splitlines() if line[:2] == "H-"]
    assert going_on[0].startswith("w1 w2 w3") and going_on[1].startswith("w4")
    with mock.patch.object(torch, "load", wraps=torch.load) as load:
        hub = TupeLanguageModel.from_pretrained(str(trained_lm), LAST)
    assert load.call_count == 1
    assert hub.sample(["w1 w2 w3", "w4"], beam=2, max_len_b=9) == going_on
    ensemble = ":".join([f"{trained_lm.name}/{LAST}"] * 2)
    hub = TupeLanguageModel.from_pretrained(str(trained_lm.parent), ensemble, str(data))
    assert hub.sample(["w1 w2 w3", "w4"], beam=2, max_len_b=9) == going_on


def test_a_trained_translation(pairs, tmp_path):
    # cross positions show which word comes next, so this is learned quickly
    flags = ["--cross-positions", "--lr", 5e-3, "--max-update", 160, "--total-num-update", 160]
    flags += ["--encoder-embed-dim", 48, "--decoder-embed-dim", 48]
    found = losses(train(pairs, tmp_path, *MT, *flags))
    assert sum(found[-10:]) < 0.5 * sum(found[:10])
    hub = TupeTransformer.from_pretrained(str(tmp_path), LAST)
    words = [*EVALUATION, "--path", tmp_path / LAST, "--beam", 3]
    printed = run_here("fairseq-generate", pairs, *words, "--gen-subset", "valid").stdout
    lines = dict(line.split("\t", 1) for line in printed.splitlines() if line[:2] in ("S-", "H-"))
    for number in range(3):
        assert hub.translate(lines[f"S-{number}"], beam=3) == lines[f"H-{number}"].split("\t")[1]


def test_a_translation_that_measures_bleu_is_read_again(pairs, tmp_path):
    """fairseq stores BLEU's counts as arrays of numpy."""
    flags = ["--eval-bleu", "--eval-bleu-args", '{"max_len_b": 9}', "--eval-bleu-detok", "space"]
    flags += ["--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"]
    assert len(losses(train(pairs, tmp_path, *MT, *flags, "--max-update", 2))) == 2
    TupeTransformer.from_pretrained(str(tmp_path), LAST)
    words = [*EVALUATION, "--path", tmp_path / LAST, "--gen-subset", "valid"]
    assert "Generate valid" in run_here("fairseq-generate", pairs, *words).stdout


def test_a_translation_by_hydra_has_our_options(pairs):
    flags = ["--rel-pos", "--cross-positions", "--encoder-position-encoding", "tupe"]
    task, by_flags, _ = training.build(pairs, *MT, "--position-encoding", "none", *flags)
    sizes = {f"{s}_{n}": SIZES[n] for s in ("encoder", "decoder") for n in SIZES if n[0] != "f"}
    own = {"position_encoding": "none", "rel_pos": True, "encoder_position_encoding": "tupe"}
    cfg = {"_name": "tupe_transformer_tiny", **sizes, **own, "cross_positions": True}
    cfg["dropout"] = 0.0
    model = task.build_model(OmegaConf.create({**cfg, "share_all_embeddings": True}))
    shapes = [{k: x.shape for k, x in m.state_dict().items()} for m in (model, by_flags)]
    assert model.decoder.config == by_flags.decoder.config and shapes[0] == shapes[1]
    with pytest.raises(ValueError, match="unknown option relpos .* did you mean rel_pos"):
        task.build_model(OmegaConf.create({**cfg, "relpos": True}))


def test_an_average_of_trained_checkpoints_loads(data, trained_lm, tmp_path):
    # as fairseq's script does: sums of tensors, divided by their number, integers rounding down
    state = torch.load(trained_lm / LAST, weights_only=False)
    for name, x in state["model"].items():
        state["model"][name] = (x + x) / 2 if x.is_floating_point() else (x + x) // 2
    torch.save(state, tmp_path / "average.pt")
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
        [str(tmp_path / "average.pt")], arg_overrides={"data": str(data)}
    )
    assert model.decoder.config.rel_pos


# ---- What is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size, reason",
    [
        (["--decoder-ffn-embed-dim", 20], "give the checkpoint's --arch, sizes"),
        (["--decoder-attention-heads", 2], "--decoder-attention-heads is 3 in the checkpoint"),
        (["--decoder-attention-heads", 5], r"embed_dim \(12\) is not divisible by num_heads \(5\)"),
    ],
)
def test_another_size_is_refused_in_a_training(size, reason, data, trained_lm, tmp_path):
    flags = ["--rel-pos", *size, "--restore-file", trained_lm / LAST]
    with pytest.raises(ValueError, match=reason):
        train(data, tmp_path, *LM, *flags)


def test_the_unit_of_distances_is_named_by_the_flag_of_decoders(data):
    flags = ["--position-encoding", "enformer", "--max-target-positions"]
    (_, saved, _), (_, other, _) = (training.build(data, *LM, *flags, n) for n in (16, 24))
    with pytest.raises(ValueError, match="--max-target-positions is 16 in the checkpoint and 24"):
        other.load_state_dict(saved.state_dict())


@pytest.mark.parametrize(
    "flags, reason",
    [
        (["--decoder-learned-pos"], r"--decoder-learned-pos \(True\) does not apply"),
        (["--max-target-positions", 9], r"up to 16 tokens, more than --max-target-positions \(9\)"),
        (["--tie-adaptive-weights"], r"--tie-adaptive-weights \(True\) does not apply"),
    ],
    ids=["learned positions", "long samples", "tied"],
)
def test_flags_that_do_not_fit(flags, reason, data):
    with pytest.raises(ValueError, match=reason):
        training.build(data, *LM, *flags)


def test_the_encoder_of_a_translation_drops_no_layers(pairs):
    with pytest.raises(ValueError, match=r"--encoder-layerdrop \(0.1\) does not apply"):
        training.build(pairs, *MT, "--encoder-layerdrop", 0.1)


def test_refused_as_code_or_as_what_a_cache_cannot_serve(monkeypatch):
    with pytest.raises(ValueError, match="must be numbers"):
        check_options(argparse.Namespace(adaptive_softmax_cutoff="__import__('os').abort()"))
    both = type("Both", (CATALOGUE["rope"],), {"content_bias": CATALOGUE["shaw"].content_bias})
    monkeypatch.setitem(CATALOGUE, "both", both)
    with pytest.raises(ValueError, match="decoders do not take position encoding 'both'"):
        language_model(Case("both", {}))


def test_refused_by_from_pretrained_as_another_model(trained_lm, tmp_path):
    state = torch.load(trained_lm / LAST, weights_only=False)
    for key, value in (("model", "lightconv_lm"), ("task", "masked_lm")):
        changed = {**state, "cfg": {**state["cfg"], key: {**state["cfg"][key], "_name": value}}}
        if key == "model":
            changed["cfg"]["model"]["arch"] = value
        torch.save(changed, tmp_path / "other.pt")
        with pytest.raises(ValueError, match=f"is refused.*{value}"):
            TupeLanguageModel.from_pretrained(str(tmp_path), "other.pt")
    state["model"]["decoder.layers.1.fc1.bias"][2] = float("nan")
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(ValueError, match="other.pt: .*1.fc1.bias holds NaN"):
        TupeLanguageModel.from_pretrained(str(tmp_path), "other.pt")
    with pytest.raises(ValueError, match="^unknown option dropuot .*; did you mean dropout?"):
        TupeLanguageModel.from_pretrained(str(trained_lm), LAST, dropuot=0.3)
