"""What figures show, compared with loops and with weights made for the purpose; and tupe-plot."""

import dataclasses
import shutil

import pytest
import torch
from matplotlib.image import imread

from helpers.glue_data import write_bin
from helpers.glue_files import write_pretrain_dir
from helpers.models import write_model
from helpers.running import run_here
from tupe_fairseq import TupeConfig, TupeEncoder
from tupe_fairseq.data.subwords import SentencePiece
from tupe_fairseq.figures import (
    PlotInput,
    attention,
    draw_attention,
    draw_position_bias,
    draw_terms,
    load,
    position_bias,
)

LENGTH, HEADS, WIDTH = 6, 3, 12
CONFIG = TupeConfig(
    embed_dim=WIDTH, num_heads=HEADS, num_layers=2, ffn_embed_dim=5, max_positions=9, dropout=0.0,
    attention_dropout=0.0,
)  # fmt: skip


def plot_input(**options):
    encoder = TupeEncoder(dataclasses.replace(CONFIG, **options)).eval()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return PlotInput(encoder, LENGTH, [0, 2], torch.randn(LENGTH, WIDTH), list("abcdef"))


def test_profile_is_the_mean_of_each_diagonal():
    bias = torch.randn(HEADS, LENGTH, LENGTH)
    profile = position_bias.by_offset(bias)
    assert profile.offsets.tolist() == list(range(2 - LENGTH, LENGTH - 1))
    for column, offset in enumerate(profile.offsets.tolist()):
        rows = [i for i in range(1, LENGTH) if 1 <= i + offset < LENGTH]
        values = torch.stack([bias[:, i, i + offset] for i in rows]).double()
        torch.testing.assert_close(profile.mean[:, column], values.mean(0))
        torch.testing.assert_close(profile.spread[:, column], values.std(0, unbiased=False))


@pytest.mark.parametrize(
    "options",
    [
        {"position_encoding": "sinusoidal", "normalize_before": True},
        {"position_encoding": "learned", "rel_pos": True},
        {"position_encoding": "tupe", "rel_pos": True},
        {"position_encoding": "alibi", "normalize_before": True},
    ],
    ids=lambda options: options["position_encoding"],
)
def test_four_correlations_add_up_to_the_logits(options):
    given = plot_input(**options)
    encoder, words = given.encoder, torch.randn(2, LENGTH, WIDTH)
    with torch.no_grad():
        four = attention.four_correlations(encoder, words)
    assert four.shape == (4, 2, HEADS, LENGTH, LENGTH)
    weights = encoder.attention_weights(words)[0]
    torch.testing.assert_close(four.sum(0).softmax(-1), weights, rtol=1e-4, atol=1e-5)
    if encoder.position.uses("embed"):
        # position-to-position depends on the sentence only through the LayerNorm's scale
        assert not four[0, 0].equal(four[0, 1])
    else:
        assert not four[1:3].any()  # untied: no term mixes words and positions


@pytest.mark.parametrize("rel_pos", [True, False], ids=["TUPE-R", "TUPE-A"])
def test_the_terms_of_tupe_add_up_to_the_logits(rel_pos):
    given = plot_input(rel_pos=rel_pos)
    found = images(draw_terms(given, head=2))
    total = sum(found[name] for name in ("words", "positions", "distance", "[CLS]"))
    torch.testing.assert_close(found["their sum"], total)
    weights = given.encoder.attention_weights(given.sentence[None])[0][0, 2]
    torch.testing.assert_close(found["attention"], weights)
    for name, exists in (("positions", True), ("distance", rel_pos)):
        assert not found[name][0].any() and not found[name][:, 0].any()
        assert found[name].any() == exists
    assert not found["[CLS]"][1:, 1:].any()


def test_four_correlations_one_by_one():
    given = plot_input(position_encoding="learned")
    encoder, words = given.encoder.double(), given.sentence[None].double()
    norm, attn = encoder.layernorm_embedding, encoder.layers[0].self_attn
    size = WIDTH // HEADS
    with torch.no_grad():
        four = attention.four_correlations(encoder, words)
        for i, j in ((0, 0), (2, 5), (4, 1)):
            parts = []
            for t in (i, j):
                w, p = words[0, t], encoder.position_bias.pos.weight[t]
                scale = (((w + p) - (w + p).mean()).square().mean() + norm.eps).rsqrt()
                word = (w - w.mean()) * scale * norm.weight + norm.bias
                parts.append((word, (p - p.mean()) * scale * norm.weight))
            for head in range(HEADS):
                rows = slice(head * size, (head + 1) * size)
                w_q, w_k, _ = (w[rows] for w in attn.in_proj_weight.chunk(3))
                b_q, b_k, _ = (b[rows] for b in attn.in_proj_bias.chunk(3))
                queries = w_q @ parts[0][0] + b_q, w_q @ parts[0][1]
                keys = w_k @ parts[1][0] + b_k, w_k @ parts[1][1]
                expected = [attn.scaling * q @ k for q in queries for k in keys]
                torch.testing.assert_close(four[:, 0, head, i, j], torch.stack(expected))


def images(figure):
    """Title and values of every panel that shows a matrix, rows downwards; the last of a title."""
    panels = [ax for ax in figure.axes if ax.images]
    assert all(ax.get_ylim()[0] > ax.get_ylim()[1] for ax in panels)
    titles = (ax.get_title().partition(" (")[0] for ax in panels)
    return {title: torch.tensor(ax.images[0].get_array().data) for title, ax in zip(titles, panels)}


def test_matrices_are_drawn_with_queries_as_rows():
    given = plot_input(rel_pos=True)
    total = given.encoder.position_bias(LENGTH).detach()
    assert not torch.allclose(total, total.transpose(1, 2))
    measured = position_bias.measure(given)
    torch.testing.assert_close(measured["sum"], total[[0, 2]])
    found = images(draw_position_bias(given))
    for head in (0, 2):
        torch.testing.assert_close(found[f"head {head}"], total[head])


def test_keys_that_a_head_does_not_see_are_left_blank():
    given = plot_input(position_encoding="kerple", num_heads=4, one_way_heads=True)
    total = given.encoder.position_bias(LENGTH).detach()
    found = images(draw_position_bias(given))
    for head, hidden in ((0, torch.triu), (2, torch.tril)):
        is_hidden = hidden(torch.ones(LENGTH, LENGTH), 1 if head == 0 else -1).bool()
        assert found[f"head {head}"].isnan().equal(is_hidden)
        torch.testing.assert_close(found[f"head {head}"][~is_hidden], total[head][~is_hidden])


def test_attention_is_that_of_the_sentence():
    given = plot_input(rel_pos=True)
    weights = given.encoder.attention_weights(given.sentence[None])
    assert attention.attention_weights(given).equal(torch.cat(weights)[:, [0, 2]])
    found = images(draw_attention(given))
    torch.testing.assert_close(found["layer 1, head 2"], weights[1][0, 2].detach())


def test_an_encoding_of_each_layer_has_a_matrix_for_each():
    given = plot_input(position_encoding="enformer")
    found = position_bias.measure(given)
    assert list(found) == ["layer 0", "layer 1"]
    for n, layer in enumerate(given.encoder.layers):
        q = torch.zeros(1, HEADS, LENGTH, WIDTH // HEADS)
        position = layer.self_attn.position
        terms = [position(LENGTH), position.content_bias(q, q, LENGTH, LENGTH)]
        total = sum(t.detach().expand(1, HEADS, -1, -1)[0] for t in terms if t is not None)
        torch.testing.assert_close(found[f"layer {n}"], total[[0, 2]])
    assert not torch.allclose(found["layer 0"], found["layer 1"])


# ---- tupe-plot


@pytest.fixture
def model(tmp_path):
    """A checkpoint beside a vocabulary and a valid split of 40 sentences."""
    data = write_pretrain_dir(tmp_path / "a")
    write_bin(data / "valid", [[4 + n % 7, 9, 5, 2] for n in range(40)])
    return write_model(data, data)


def test_the_figures_that_apply(model, tmp_path):
    out = tmp_path / "out"
    log = run_here("tupe-plot", model, "--output-dir", out).stdout
    names = {"position_bias", "profile_by_distance", "correlations", "attention"}
    assert {path.stem for path in out.iterdir()} == names
    for path in out.iterdir():
        image = imread(path)[..., :3]
        assert min(image.shape[:2]) > 100 and image.std() > 0.05  # ink on white paper
    rope = write_model(model.parent, model.parent, position_encoding="rope")
    log = run_here("tupe-plot", rope, "--output-dir", tmp_path / "rope").stdout
    assert "correlations.png: skipped: position encoding 'rope' acts with content" in log
    # without text
    other = shutil.copytree(model.parent, tmp_path / "b", ignore=shutil.ignore_patterns("valid*"))
    bare = write_model(other, other, position_encoding="learned")
    log = run_here("tupe-plot", bare, "--output-dir", tmp_path / "none").stdout
    assert "attention.png: skipped: there is no sentence; give --sentence" in log
    assert "correlations.png: skipped: there is no sentence" in log


def test_a_sentence_is_encoded_by_the_vocabulary_of_the_data(model):
    given = load(str(model), sentence="a dog", length=9, heads=[1])
    pieces = SentencePiece(str(model.parent / "sentencepiece.bpe.model")).split("a dog")
    assert given.tokens == ["<s>", *pieces, "</s>"]
    assert (given.length, given.heads) == (9, [1])
