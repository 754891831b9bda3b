"""tupe-plot on checkpoints and text, and what it refuses."""

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

FIGURES = {"position_bias", "profile_by_distance", "cls", "correlations", "variance", "attention"}


def plot(*words):
    return call_program("plot", words)


@pytest.fixture
def model(tmp_path):
    """A checkpoint with dict.txt and a valid split of 40 sentences."""
    (tmp_path / "a").mkdir()
    crafted.save(crafted.whole_state(), tmp_path / "a" / "model.pt")
    (tmp_path / "a" / "dict.txt").write_text("\n".join(crafted.LINES) + "\n")
    write_bin(tmp_path / "a" / "valid", [[4 + n % 7, 9, 5, 2] for n in range(40)])
    return tmp_path / "a" / "model.pt"


def written(folder):
    return {path.stem for path in folder.iterdir()}


def test_all_figures_that_apply(model, tmp_path):
    code, log = plot(model, "--output-dir", tmp_path / "out", "--dpi", 40)
    assert code == 0 and written(tmp_path / "out") == FIGURES - {"correlations"}, log
    assert "correlations.png: skipped for a: position encoding 'tupe' adds nothing" in log
    for path in (tmp_path / "out").iterdir():
        image = imread(path)[..., :3]
        assert min(image.shape[:2]) > 100 and image.std() > 0.05  # ink on white paper
    sizes = imread(tmp_path / "out" / "cls.png").shape
    assert plot(model, "--output-dir", tmp_path / "out", "--dpi", 80, "--names", "mine")[0] == 0
    assert abs(imread(tmp_path / "out" / "cls.png").shape[0] - 2 * sizes[0]) <= 2


def test_two_models_without_text(model, tmp_path):
    shutil.copytree(tmp_path / "a", tmp_path / "b", ignore=shutil.ignore_patterns("valid*"))
    other = tmp_path / "b" / "model.pt"
    code, log = plot(
        model, other, "--output-dir", tmp_path / "out", "--dpi", 40, "--data", other.parent
    )
    assert code == 0 and written(tmp_path / "out") == {
        "position_bias",
        "profile_by_distance",
        "cls",
    }
    assert "variance.png: skipped for b: it needs text; give --sentences" in log


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
    (folder / "mine.txt").write_text("is is\n")
    (given,) = load([str(model)], sentence="of the", length=9, heads=[1]).values()
    assert given.tokens == ["<s>", "\u2581of", "\u2581the", "</s>"]
    assert (given.length, given.heads, given.blocks.shape[1]) == (9, [1], 9)
    (given,) = load([str(model)], sentences=str(folder / "mine.txt")).values()
    assert given.tokens == ["<s>", "\u2581is", "\u2581is", "</s>"] and given.blocks is None
    (given,) = load([str(model)], sentences=str(text / "valid.txt")).values()
    assert given.blocks.shape[1] == 16 and given.words.shape[:2] == given.blocks.shape


@pytest.mark.parametrize(
    "words, message",
    [
        (["--length", 17], r"--length (17) is above the model's max_positions (16)"),
        (["--length", 1], "'1' is not a whole number of 2 or more"),
        (["--heads", "0,4"], "--heads (4) is above 1, the last head"),
        (["--names", "a,b"], "--names has 2 names for 1 checkpoints"),
        (["--sentence", "a"], "give --data, the folder that the checkpoint was trained with"),
        (["--sentences", "absent.txt"], "absent.txt does not exist"),
        (["{folder}/model.pt"], "a checkpoint is listed twice"),
        (["{folder}/dict.txt"], "dict.txt"),
    ],
)  # fmt: skip
def test_refused(words, message, model, tmp_path):
    words = [str(word).replace("{folder}", str(model.parent)) for word in words]
    code, log = plot(model, *words, "--output-dir", tmp_path / "out")
    assert code == 2 and message in log.splitlines()[-1]
    assert not (tmp_path / "out").exists()
