"""A user's own position encoding, the one of examples/positions, through the doors of ours."""

import re
import sys

import pytest
import torch

from helpers import training
from helpers.models import write_model
from helpers.own_encoding import NAME, OWN_DIR, write
from helpers.running import call_program, refused, run_process, trainings_here
from helpers.training import MODEL, PRETRAINING, assert_same_weights
from tupe_fairseq import TupeConfig, TupeEncoder, TupeRobertaModel
from tupe_fairseq.modules.record import recorded_options
from tupe_fairseq.position import CATALOGUE, PositionEncoding, register_position_encoding

LAST = "checkpoint_last.pt"
OWN = [*MODEL, *PRETRAINING, "--user-dir", OWN_DIR, "--position-encoding", NAME]


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    training.train(data, folder, *OWN)
    return folder


def test_a_training_starts_from_any_folder_and_resumes_to_the_same(data, trained, tmp_path):
    """In a process of its own, where fairseq imports the folder, and that imports our package."""
    package = write(tmp_path).name
    words = [word if word != OWN_DIR else package for word in OWN]
    flags = ["--max-update", 5, "--save-dir", tmp_path / "slopes"]
    run_process("fairseq-train", data, *words, *flags, cwd=tmp_path)
    training.train(data, tmp_path / "slopes", *OWN)
    assert_same_weights(tmp_path / "slopes" / LAST, trained / LAST)
    slopes = training.weights(trained / LAST)["encoder.sentence_encoder.position_bias.log_slopes"]
    assert not slopes.equal(torch.linspace(-6, 0, 3))  # it was trained


def test_the_commands_read_its_checkpoint_if_they_are_given_the_folder(
    data, trained, tmp_path, monkeypatch
):
    hub = TupeRobertaModel.from_pretrained(str(trained), LAST, str(data), user_dir=OWN_DIR)
    bias = hub.position_bias(4).sum
    assert bias[0, 0].tolist() == sorted(bias[0, 0].tolist(), reverse=True)
    plot = ["plot", trained / LAST, "--data", data, "--output-dir", tmp_path]
    code, text = call_program(plot[0], [*plot[1:], "--user-dir", OWN_DIR])
    assert code == 0 and (tmp_path / "position_bias.png").exists(), text
    # no folder is taken from the file, which records one
    state = torch.load(trained / LAST, weights_only=False)
    assert state["cfg"]["common"]["user_dir"] == OWN_DIR
    monkeypatch.delitem(CATALOGUE, NAME)
    assert "or one that a --user-dir registers" in refused(*plot)
    with pytest.raises(ValueError, match="or one that a --user-dir registers"):
        TupeRobertaModel.from_pretrained(str(trained), LAST, str(data))


def test_a_decoder_takes_it(data):
    flags = ["--user-dir", OWN_DIR, "--position-encoding", NAME, "--tokens-per-sample", 16]
    flags += ["--arch", "tupe_transformer_lm_tiny", "--task", "tupe_language_modeling"]
    _, model, _ = training.build(data, *flags)
    assert isinstance(model.decoder.position, CATALOGUE[NAME])


def test_it_is_compared(data, tmp_path):
    words = [data, "--output-dir", tmp_path / "out", "--schemes", f"alibi; {NAME}", "--updates", 2]
    words += ["--seeds", 1, "--batch-size", 2, "--tokens-per-sample", 16, "--cpu", "--user-dir"]
    with trainings_here():
        code, text = call_program("compare", [*map(str, words), OWN_DIR])
    assert code == 0 and NAME in (tmp_path / "out" / "results.md").read_text(), text


def test_it_is_fine_tuned(trained, tmp_path):
    data = training.write_glue(tmp_path / "CoLA", "CoLA")
    words = ["--data", data, trained / LAST, "--output-dir", tmp_path / "runs"]
    words += ["--cpu", "--epochs", 1, "--lrs", 1e-2, "--seeds", 1, "--user-dir", OWN_DIR]
    with trainings_here():
        code, text = call_program("finetune", words)
    assert code == 0 and (tmp_path / "runs" / "CoLA" / "best" / "checkpoint_best.pt").exists(), text


def test_it_is_exported_with_its_code_and_converted_back(vocabulary, tmp_path):
    """The folder needs no --user-dir; the checkpoint does again."""
    pytest.importorskip("tokenizers")
    checkpoint = write_model(tmp_path / "run", vocabulary, position_encoding=NAME)
    words = [checkpoint, "--data", vocabulary, "--user-dir", OWN_DIR]
    code, text = call_program("export", [*words, "--output-dir", tmp_path / "out"])
    assert code == 0, text
    code = (
        "import sys, transformers; from transformers import AutoModel\n"
        f"model = AutoModel.from_pretrained({str(tmp_path / 'out')!r}, trust_remote_code=True)\n"
        "print(type(model.encoder.position_bias).__name__, 'tupe_fairseq' in sys.modules)"
    )
    assert "LearnedSlopes False" in run_process(sys.executable, "-c", code).stdout
    words = [tmp_path / "out", "--user-dir", OWN_DIR]
    code, text = call_program("convert", [*words, "--output-dir", tmp_path / "back"])
    assert code == 0, text
    expected, found = (training.weights(x) for x in (checkpoint, tmp_path / "back" / "model.pt"))
    assert all(found[name].equal(expected[name]) for name in expected)


def test_what_cannot_be_registered(tmp_path):
    for name, members, reason in (
        ("rope", {}, "there is a position encoding 'rope' already"),
        ("a b", {}, "'a b' cannot name a position encoding"),
        ("mine", {"takes": {"sharpness": 2}}, "takes of Mine has 'sharpness', which is not an"),
        ("mine", {"per_layer": True, "bias": max}, "Mine is per_layer and has bias, which is"),
    ):
        mine = type("Mine", (PositionEncoding,), members)
        with pytest.raises(ValueError, match=reason):
            register_position_encoding(name)(mine)
        assert CATALOGUE.get(name) is not mine
    (tmp_path / "json").mkdir()
    (tmp_path / "model.pt").touch()
    for folder, reason in (("json", "another module json; rename"), ("absent", "is not a folder")):
        words = ["--output-dir", tmp_path / "out", "--user-dir", tmp_path / folder]
        assert reason in refused("plot", tmp_path, *words)


@pytest.mark.parametrize("shape", [(7, 7), (1, 7, 7), (7, 7, 4)])
def test_a_bias_of_another_shape(monkeypatch, shape):
    """It could be broadcast, and then be right for short sequences only."""

    class Mine(PositionEncoding):
        def bias(self, positions_q, positions_k):
            return torch.zeros(shape)

    monkeypatch.setitem(CATALOGUE, "mine", Mine)
    encoder = TupeEncoder(TupeConfig(32, 4, 64, 1, position_encoding="mine"))
    problem = re.escape(f"bias of Mine is {shape}; expected (4, 7, 7)")
    with pytest.raises(ValueError, match=problem):
        encoder(torch.zeros(2, 7, 32))


def test_options_that_it_takes(monkeypatch):
    """They are flags already, and are recorded."""

    class Mine(CATALOGUE["shaw"]):
        takes = {"max_rel_pos": 3}

    with monkeypatch.context() as patch:
        patch.setitem(CATALOGUE, "mine", None)
        del CATALOGUE["mine"]
        register_position_encoding("mine")(Mine)
        config = TupeConfig(position_encoding="mine", max_rel_pos=5)
        assert TupeEncoder(config).position_encodings()[0].max_rel_pos == 5
        assert recorded_options(config)["max_rel_pos"] == 5
