"""from_pretrained(save_dir) gives fairseq's hub interface, and ours for positions and texts."""

import argparse
import shutil
from pathlib import Path
from unittest import mock

import pytest
import torch
from fairseq.data import encoders
from fairseq.models.roberta import RobertaModel
from fairseq.models.roberta.hub_interface import RobertaHubInterface

from helpers import training
from helpers.glue_data import own_task, write_data
from helpers.models import hub_of, write_model
from helpers.running import USER_DIR
from helpers.vocabularies import write_gpt2
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.data.tokenizer import Tokenizer

LAST = "checkpoint_last.pt"
TOKENS = torch.tensor([[0, 7, 8, 9, 5, 2], [0, 6, 5, 2, 1, 1]])


@pytest.fixture(scope="module")
def hub(subwords_trained):
    return TupeRobertaModel.from_pretrained(str(subwords_trained), LAST).eval()


@pytest.fixture(scope="module")
def lines(subwords):
    return (subwords / "text.txt").read_text().splitlines()


def test_text_is_encoded_and_decoded(hub, lines):
    assert isinstance(hub, RobertaHubInterface) and hub.model.encoder.document_start is None
    tokens = hub.encode(lines[0])
    assert tokens[0] == 0 and tokens[-1] == 2 and hub.decode(tokens) == lines[0]


def test_a_mask_is_filled(hub, lines):
    word, bias = lines[0].split()[0], hub.model.encoder.lm_head.bias
    bias.data[2] += 20  # </s> is likeliest, but is left out
    found = hub.fill_mask(f"{word} <mask>", topk=4)
    tokens = torch.cat([hub.encode(word)[:-1], torch.tensor([hub.task.mask_idx, 2])])
    with torch.no_grad():
        shares = hub.model(tokens[None])[0][0, -2].softmax(0)
    bias.data[2] -= 20
    assert len(found) == 4 and shares.argmax() == 2
    best = shares[3:].sort(descending=True).values[:4]
    assert [share for _, share, _ in found] == pytest.approx(best.tolist(), rel=1e-5)
    assert all("<mask>" not in text and filled.strip() in text for text, _, filled in found)
    with pytest.raises(ValueError, match=r"topk \(0\) must be 1 or more"):
        hub.fill_mask("<mask>", topk=0)


def test_stock_from_pretrained(subwords_trained, hub):
    """fairseq's own way to load it, with our --user-dir."""
    stock = RobertaModel.from_pretrained(
        str(subwords_trained), LAST, user_dir=USER_DIR, bpe="sentencepiece"
    ).eval()
    assert stock.extract_features(TOKENS[0]).equal(hub.extract_features(TOKENS[0]))


def test_features_and_heads(hub):
    features = hub.extract_features(TOKENS)
    states = hub.extract_features(TOKENS, return_all_hiddens=True)
    assert features.shape == (2, 6, 12) and len(states) == 3 and states[-1].equal(features)
    same, weights = hub.extract_features(TOKENS, return_attention=True)
    assert same.equal(features) and [w.shape for w in weights] == [(2, 3, 6, 6)] * 2
    assert not any(w[1, :, :, 4:].any() for w in weights)
    hub.register_classification_head("topics", num_classes=5)
    hub.eval()
    logits = hub.predict("topics", TOKENS, return_logits=True)
    rows = [hub.predict("topics", x, return_logits=True) for x in (TOKENS[0], TOKENS[1, :4])]
    torch.testing.assert_close(logits, torch.cat(rows), rtol=0, atol=1e-6)
    assert hub.predict("topics", TOKENS).equal(logits.log_softmax(-1))
    with pytest.raises(ValueError, match="has 17 tokens, .* and the model takes 16; shorten it"):
        hub.predict("topics", torch.full((17,), 5))


def test_overrides_and_a_folder_without_a_subword_model(subwords_trained, tmp_path):
    for name in (LAST, "dict.txt"):
        shutil.copy(subwords_trained / name, tmp_path)
    hub = TupeRobertaModel.from_pretrained(str(tmp_path), LAST, attn_impl="eager", dropout=0.3)
    config = hub.model.encoder.sentence_encoder.config
    assert (config.attn_impl, config.dropout) == ("eager", 0.3) and hub.bpe is None
    for method, text in ((hub.encode, "a"), (hub.fill_mask, "<mask>"), (hub.decode, TOKENS[0])):
        with pytest.raises(FileNotFoundError, match="there is no vocabulary in"):
            method(text)
    with pytest.raises(FileNotFoundError, match="other.pt does not exist"):
        TupeRobertaModel.from_pretrained(str(tmp_path), "other.pt")
    for given in ({}, {"load_checkpoint_heads": True}):  # as fairseq's own models take it
        assert not TupeRobertaModel.from_pretrained(str(tmp_path), LAST, **given).bpe
    for name, advice in (
        ("unknown_thing", ""), ("attn_imp", "; did you mean attn_impl?"), ("lr", ""),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"^unknown option {name} of from_pretrained{advice}"):
            TupeRobertaModel.from_pretrained(str(tmp_path), LAST, **{name: 3})
    with pytest.raises(ValueError, match="which must be one of"):
        TupeRobertaModel.from_pretrained(str(tmp_path), LAST, task="x")


# ---- fairseq's bpe and tokenizer -----------------------------------------------------------------

GPT2 = {"gpt2_encoder_json": "encoder.json", "gpt2_vocab_bpe": "vocab.bpe"}
LENGTH = {"max_positions": 64, "tokens_per_sample": 64}
TEXTS = ("the the a", " the", "over there,  A \u00e9\n")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The current folder: data-bin and files of a byte-level BPE; a model of it in run/."""
    monkeypatch.chdir(tmp_path)
    write_gpt2(tmp_path)
    (tmp_path / "data-bin").mkdir()
    (tmp_path / "theirs.txt").rename("data-bin/dict.txt")
    write_model(tmp_path / "run", tmp_path / "data-bin", **LENGTH)
    names = "run", "checkpoint_best.pt", "data-bin"
    return lambda bpe=None, **options: hub_of(*names, bpe=bpe, **options)


def fairseqs(hub, name, text, **options):
    """The ids of a text by fairseq's own encoder."""
    bpe = encoders.build_bpe(argparse.Namespace(bpe=name, **options))
    line = f"<s> {bpe.encode(text)} </s>"
    return hub.task.source_dictionary.encode_line(line, append_eos=False, add_if_not_exist=False)


def test_gpt2_by_its_files_their_names_or_not_at_all(own):
    hub = own("gpt2", **GPT2)
    for text in TEXTS:
        assert hub.encode(text).tolist() == fairseqs(hub, "gpt2", text, **GPT2).tolist()
    assert hub.decode(hub.encode("the the a")) == "the the a"
    assert "the the a" in [text for text, _, _ in hub.fill_mask("the <mask> a", topk=300)]
    for name in ("encoder.json", "vocab.bpe"):
        shutil.move(name, "data-bin")
    for given in ({"bpe": "gpt2"}, {"bpe": None}, {}):
        assert own(**given).encode(TEXTS[0]).tolist() == hub.encode(TEXTS[0]).tolist()


def test_other_encoders_of_fairseq(own):
    for name in ("subword_nmt", "sacremoses"):
        pytest.importorskip(name)
    Path("code").write_text("#version: 0.2\nt h\nth e</w>\n")
    Path("data-bin/dict.txt").write_text("".join(f"{x} 1\n" for x in ("th@@", "the", "a", "x@@")))
    write_model(Path("run"), Path("data-bin"), **LENGTH)
    options = {"bpe_codes": "code", "tokenizer": "moses", "moses_no_escape": True}
    hub = own("subword_nmt", **options)
    ids = [0, *map(hub.task.source_dictionary.index, ("the", "a", "th@@", "a")), 2]
    assert hub.encode("the a tha").tolist() == ids and hub.decode(hub.encode("a tha")) == "a tha"
    assert "the a" in [text for text, _, _ in hub.fill_mask("the <mask>")]
    shutil.move("code", "run")  # where fairseq looks for it
    assert own("subword_nmt").encode("the a tha").tolist() == ids
    assert own(tokenizer="space").encode("the  a").tolist() == [0, *ids[1:3], 2]


def test_a_bpe_that_does_not_fit(own, subwords, subwords_trained):
    for options, reason in {
        ("bytelevel",): "^bpe 'bytelevel' is none of .*gpt2",
        ("sentencepiece",): "^bpe='sentencepiece' needs sentencepiece_model, or sentencepiece.bp",
        (None, "gpt2_vocab_bpe"): "^gpt2_vocab_bpe is an option of bpe='gpt2'",
        ("gpt2", "bpe_codes"): "^bpe_codes is an option of bpe='fastbpe' or 'subword_nmt'",
        ("gpt2", "gpt2_vocab_bpe"): "^bpe='gpt2' needs gpt2_encoder_json, or encoder.json in",
        ("gpt2", "moses_no_escape"): "^moses_no_escape is an option of tokenizer='moses'",
    }.items():
        with pytest.raises((OSError, ValueError), match=reason):
            own(options[0], **dict.fromkeys(options[1:], "code"))
    with pytest.raises(ValueError, match="and the dictionary do not fit"):
        TupeRobertaModel.from_pretrained(str(subwords_trained), LAST, bpe="gpt2", **GPT2)
    folder = Path(shutil.copytree(subwords_trained, "recorded"))
    (folder / "vocabulary.json").write_text(
        '{"kind": "sentencepiece", "clean": true, "lowercase": true}'
    )
    Path("other.model").write_bytes(b"another")
    for options in ({}, {"sentencepiece_model": str(subwords / "sentencepiece.bpe.model")}):
        options = {"bpe": "sentencepiece", **options}
        recorded = TupeRobertaModel.from_pretrained(str(folder), LAST, **options)
        assert recorded.encode("a").tolist() == recorded.encode("A").tolist()
    for options, reason in (
        (GPT2, "^bpe='gpt2' contradicts .*vocabulary.json, which records sentencepiece"),
        ({"tokenizer": "space"}, "^tokenizer='space' contradicts .*vocabulary.json"),
        ({"sentencepiece_model": "other.model"}, "^sentencepiece_model='other.model' differs from"),
        ({"sentencepiece_alpha": 0.5}, "^sentencepiece_alpha=0.5 differs from"),
    ):
        options = {"bpe": "gpt2" if options is GPT2 else "sentencepiece", **options}
        with pytest.raises(ValueError, match=reason):
            TupeRobertaModel.from_pretrained(str(folder), LAST, **options)


def test_what_is_no_text_and_no_head(hub):
    for texts in ((5,), (["a"],), ("a", None)):
        with pytest.raises(ValueError, match="is a (int|list|NoneType); give a text"):
            hub.encode(*texts)
    with pytest.raises(ValueError, match="^there is no head 'mnli'"):
        hub.predict("mnli", TOKENS)


def test_position_bias(hub):
    terms, bias = hub.position_bias(6), hub.model.encoder.sentence_encoder.position_bias
    torch.testing.assert_close(terms.absolute, bias.untied_absolute(6))
    torch.testing.assert_close(terms.relative, bias.relative(6))
    torch.testing.assert_close(terms.absolute + terms.relative, terms.sum)
    assert terms.sum.shape == (3, 6, 6) and not terms.sum.requires_grad


def test_predict_texts_of_a_fine_tuned_model(subwords, subwords_trained, lines, tmp_path):
    """Fine-tuned, then loaded from its --save-dir alone; the labels come from report.json."""
    labels, dictionary = ("good", "very bad"), (subwords / "dict.txt").read_text().splitlines()
    rows = {"train": [n % 2 for n in range(20)], "valid": [n % 2 for n in range(6)]}
    task = own_task("classification", labels=labels)
    data = write_data(tmp_path / "data", task, rows, lines=dictionary)
    shutil.copy(subwords / "sentencepiece.bpe.model", data)
    flags = [*training.finetuning("CoLA", "accuracy"), *training.DECAY, "--max-epoch", 1]
    flags += ["--pooling", "mean", "--finetune-from-model", subwords_trained / LAST]
    training.train(data, tmp_path / "out", *flags)

    # the folder of a training is its checkpoint_best.pt
    hub = TupeRobertaModel.from_pretrained(str(tmp_path / "out")).eval()
    short = [line for line in lines if len(hub.encode(line)) <= 16][:3]
    for text, row in zip(short, hub.predict_texts(short), strict=True):
        scores = hub.predict("sentence_classification_head", hub.encode(text))[0].exp()
        assert row["label"] == labels[scores.argmax()]
        assert row["probability"] == pytest.approx(scores.max().item(), abs=1e-5)
    for texts, reason in (
        (None, "None is a NoneType; give a text"), (b"good", "is a bytes"),
        ({"a": "b"}, "is a dict"), ([None], "is a NoneType"), ([["a", 3]], "contain only texts"),
        ([{"a": "b"}], "is a dict"), ([["a", "b"]], "takes 1 texts at a time, not 2"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=reason):
            hub.predict_texts(texts)
    with mock.patch.object(Tokenizer, "load", None):  # it is slow, so it must not run again
        assert hub.predict_texts(short[0]) == hub.predict_texts(short[:1])
