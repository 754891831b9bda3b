"""tupe-convert --untie: what it starts from, what it refuses, and that fairseq trains it on."""

import pytest
import torch

from helpers.crafted import save, whole_state
from helpers.exporting import MAX_POSITIONS, MEAN_POOLING, build, write_vocabulary
from helpers.exporting import save as save_model
from helpers.running import call_program
from helpers.training import losses, pretrain
from helpers.vocabularies import convert as convert_foreign
from helpers.vocabularies import printed_commands
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.checkpoint.checkpoint import read

TABLE = "encoder.sentence_encoder.position_bias.pos.weight"


def untie(checkpoint, dictionary, out, *flags):
    return call_program(
        "convert",
        ["--checkpoint", checkpoint, "--dict", dictionary, "--output-dir", out, "--untie", *flags],
    )


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return write_vocabulary(tmp_path_factory.mktemp("vocabulary") / "data")


def write_learned(folder, vocabulary, equal=False, **options):
    """A random checkpoint of ours, whose position vectors may be all the same."""
    heads = {"mine": 3}
    args, model = build(vocabulary / "dict.txt", heads, position_encoding="learned", **options)
    if equal:
        with torch.no_grad():
            table = model.encoder.sentence_encoder.position_bias.pos.weight
            table.copy_(torch.randn(table.size(1)).expand_as(table))
    return save_model(folder, args, model)


def hubs(path, vocabulary, out):
    """The hub interfaces of a checkpoint and of what was made of it."""
    before = TupeRobertaModel.from_pretrained(
        str(path.parent), path.name, str(vocabulary), tokens_per_sample=MAX_POSITIONS
    )
    return before.eval(), TupeRobertaModel.from_pretrained(str(out)).eval()


@pytest.mark.parametrize("pooling", [{}, MEAN_POOLING], ids=["cls", "mean"])
def test_equal_position_vectors_and_the_same_logits(pooling, vocabulary, tmp_path):
    """Nothing is lost then; but for what the head itself, which shares the words, makes of it."""
    options = {"untie_weights_roberta": True, **pooling}
    path = write_learned(tmp_path / "a", vocabulary, equal=True, **options)
    code, text = untie(path, vocabulary / "dict.txt", tmp_path / "out")
    assert code == 0, text
    assert "TUPE-A, NOT YET AS GOOD AS WHAT IT WAS MADE OF" in text
    before, after = hubs(path, vocabulary, tmp_path / "out")
    assert after.model.args.position_encoding == "tupe"
    tokens = torch.randint(4, 100, (3, 20))
    tokens[:, 0] = 0
    tokens[1, 9:] = 1
    real = tokens.ne(1)
    with torch.no_grad():
        for given in ({}, {"features_only": True, "classification_head_name": "mine"}):
            expected, found = (hub.model(tokens, **given)[0] for hub in (before, after))
            if given == {}:
                expected, found = expected[real], found[real]
            # the bias has the rounding of scores that should be 0
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-4)


def test_training_continues(vocabulary, data, tmp_path):
    """From a model that learned some positions, by --restore-file, through fairseq-train."""
    pretrain(data, tmp_path / "a", "--position-encoding", "learned", "--max-update", 3)
    out = tmp_path / "out"
    code, text = untie(tmp_path / "a" / "checkpoint_last.pt", data / "dict.txt", out)
    assert code == 0, text
    assert text.count("layer ") == 2 and "of that variance" in text
    command = printed_commands("\n".join(text.splitlines()))["fairseq-train"]
    assert "--position-encoding=tupe" in command
    assert read(out / "model.pt").options["position_encoding"] == "tupe"
    process = pretrain(
        data, tmp_path / "b", "--restore-file", out / "model.pt", "--max-update", 2,
        "--reset-optimizer", "--position-encoding", "tupe", "--disable-validation",
    )  # fmt: skip
    assert sorted(losses(process)) == [1, 2]
    state = torch.load(tmp_path / "b" / "checkpoint_last.pt", map_location="cpu")
    assert TABLE not in state["model"]
    # our own, but with another dictionary
    lines = (data / "dict.txt").read_text().splitlines()
    (tmp_path / "other.txt").write_text("\n".join([*lines[::-1], ""]))
    code, text = untie(
        tmp_path / "a" / "checkpoint_last.pt", tmp_path / "other.txt", tmp_path / "none"
    )
    assert code == 2 and "trained with a different vocabulary of the same size" in text
    assert not (tmp_path / "none").exists()


def test_a_roberta_folder_of_transformers(tmp_path):
    """With equal position vectors and a head of its own: the same logits."""
    transformers = pytest.importorskip("transformers")
    config = transformers.RobertaConfig(
        vocab_size=12, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=20, max_position_embeddings=18, layer_norm_eps=1e-5, type_vocab_size=1,
        tie_word_embeddings=False,
    )  # fmt: skip
    theirs = transformers.RobertaForMaskedLM(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        table = theirs.roberta.embeddings.position_embeddings.weight
        table.copy_(table[5].clone().expand_as(table))
    theirs.save_pretrained(tmp_path / "a")
    (tmp_path / "a" / "dict.txt").write_text("".join(f"word{n} 1\n" for n in range(7)))
    code, text = convert_foreign(["--checkpoint", tmp_path / "a"], tmp_path / "out", "--untie")
    assert code == 0 and "the transformers library (roberta)" in text, text
    ours = TupeRobertaModel.from_pretrained(str(tmp_path / "out")).eval()
    assert ours.model.args.position_encoding == "tupe"
    tokens = torch.tensor([[0, 5, 7, 11, 4, 2], [0, 9, 2, 1, 1, 1]])
    real = tokens.ne(1)
    with torch.no_grad():
        expected = theirs(tokens, attention_mask=real.long()).logits
        found, _ = ours.model(tokens)
    torch.testing.assert_close(found[real], expected[real], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"position_encoding": "tupe"}, "and this is tupe"),
        ({"position_encoding": "learned", "rel_pos": True}, "and this is learned --rel-pos"),
        ({"position_encoding": "learned", "encoder_normalize_before": True}, "is for post-LN"),
        ({"position_encoding": "learned", "max_positions": 2}, "--untie needs 3 positions"),
    ],
)
def test_other_models_are_refused(options, words, tmp_path):
    state = whole_state()
    save(state, tmp_path / "a.pt", **options)
    (tmp_path / "dict.txt").write_text("\n".join(f"word{n} 1" for n in range(7)) + "\n")
    code, text = untie(tmp_path / "a.pt", tmp_path / "dict.txt", tmp_path / "out")
    assert code == 2 and not (tmp_path / "out").exists()
    (line,) = text.splitlines()
    assert words in line


def test_without_the_flag_our_own_is_refused_with_a_hint(vocabulary, tmp_path):
    path = write_learned(tmp_path / "a", vocabulary)
    flags = ["--checkpoint", path, "--dict", vocabulary / "dict.txt"]
    code, text = convert_foreign(flags, tmp_path / "out")
    assert code == 2 and "make TUPE of a learned one with --untie" in text
