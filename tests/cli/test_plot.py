"""tupe-plot on checkpoints and text."""

import shutil

import pytest
import sentencepiece
import torch
from matplotlib.image import imread

from helpers import crafted
from helpers.glue_data import write_bin
from helpers.running import call_program
from tupe_fairseq.checkpoint.checkpoint import vocabulary_version
from tupe_fairseq.figures.plot_input import load


@pytest.fixture
def model(tmp_path):
    """A checkpoint with dict.txt and a valid split of 40 sentences."""
    (tmp_path / "a").mkdir()
    crafted.save(crafted.whole_state(), tmp_path / "a" / "model.pt")
    (tmp_path / "a" / "dict.txt").write_text("\n".join(crafted.LINES) + "\n")
    write_bin(tmp_path / "a" / "valid", [[4 + n % 7, 9, 5, 2] for n in range(40)])
    return tmp_path / "a" / "model.pt"


def test_the_figures_that_apply(model, tmp_path):
    out = tmp_path / "out"
    code, log = call_program("plot", [model, "--output-dir", out, "--dpi", 40])
    names = {"position_bias", "profile_by_distance", "cls", "variance", "attention"}
    assert code == 0 and {path.stem for path in out.iterdir()} == names, log
    assert "correlations.png: skipped for a: position encoding 'tupe' adds nothing" in log
    for path in out.iterdir():
        image = imread(path)[..., :3]
        assert min(image.shape[:2]) > 100 and image.std() > 0.05  # ink on white paper
    # two models, one of them without text
    shutil.copytree(tmp_path / "a", tmp_path / "b", ignore=shutil.ignore_patterns("valid*"))
    other = tmp_path / "b" / "model.pt"
    words = [model, other, "--output-dir", tmp_path / "two", "--data", other.parent, "--dpi", 40]
    code, log = call_program("plot", words)
    assert code == 0 and "variance.png: skipped for b: it needs text; give --sentences" in log
    names -= {"variance", "attention"}
    assert {path.stem for path in (tmp_path / "two").iterdir()} == names
    crafted.save(crafted.whole_state("learned"), model, position_encoding="learned")
    code, log = call_program("plot", [model, "--output-dir", out, "--dpi", 40])
    assert code == 0 and (out / "correlations.png").exists(), log


def test_text_is_encoded_by_the_vocabulary_of_the_data(model, text, tmp_path):
    folder, train = model.parent, sentencepiece.SentencePieceTrainer.train
    train(
        input=str(text / "train.txt"), model_prefix=str(folder / "sentencepiece.bpe"),
        vocab_size=300, minloglevel=2,
    )  # fmt: skip
    subwords = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    words = [subwords.id_to_piece(n) for n in range(3, 300)]
    (folder / "dict.txt").write_text("".join(f"{word} 1\n" for word in words))
    symbols = crafted.symbols_of(f"{word} 1" for word in words)
    state = crafted.whole_state()
    state["model"]["encoder.vocabulary_version"] = vocabulary_version(symbols)
    embedding = torch.randn(len(symbols), 8)
    for name in ("sentence_encoder.embed_tokens.weight", "lm_head.weight"):
        state["model"][f"encoder.{name}"] = embedding
    state["model"]["encoder.lm_head.bias"] = torch.zeros(len(symbols))
    crafted.save(state, model)
    (given,) = load([str(model)], sentence="of the", length=9, heads=[1]).values()
    assert given.tokens == ["<s>", "\u2581of", "\u2581the", "</s>"]
    assert (given.length, given.heads, given.blocks.shape[1]) == (9, [1], 9)
    (given,) = load([str(model)], sentences=str(text / "valid.txt")).values()
    assert given.blocks.shape[1] == 16 and given.words.shape[:2] == given.blocks.shape
