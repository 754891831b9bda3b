"""tupe-export: what it writes, what it compares, and what it refuses."""

import ast
import json
import os
import shutil

import onnxruntime
import pytest
import torch
import transformers
from safetensors.torch import load_file

from helpers.glue_files import sentence, write_pretrain_dir
from helpers.models import HEAD, LABELS, hub_of, write_fine_tuned, write_model
from helpers.running import call_program
from helpers.vocabularies import convert
from tupe_fairseq.data.dictionary import write_dictionary
from tupe_fairseq.data.subwords import SentencePiece, learn_sentencepiece
from tupe_fairseq.data.tokenizer import Tokenizer
from tupe_fairseq.export import check

CLASSES = LABELS["classification"]
SENTENCE_FILES = {
    "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json",
    "1_Pooling/config.json",
}  # fmt: skip


@pytest.fixture(scope="module")
def finetuned(tmp_path_factory):
    checkpoint = write_fine_tuned(tmp_path_factory.mktemp("models") / "finetuned", rel_pos=True)
    report = json.loads((checkpoint.parent / "report.json").read_text())
    report["splits"] = {"train": {"rows": 1234}}
    (checkpoint.parent / "report.json").write_text(json.dumps(report))
    return checkpoint


def export(checkpoint, out, *flags):
    return call_program("export", [checkpoint, "--output-dir", out, *flags])


def exported(*words):
    code, text = export(*words)
    assert code == 0, text
    return text


def files(folder):
    return {os.path.relpath(path, folder) for path in folder.rglob("*") if path.is_file()}


# ---- What is written ----------------------------------------------------------------------------


def test_a_finetuned_model_needs_no_flags(finetuned, tmp_path):
    out = tmp_path / "out"
    cache = os.environ["HF_MODULES_CACHE"]
    text = exported(finetuned, out, "--onnx")
    for name in ("AutoModelForSequenceClassification", "AutoModelForMaskedLM", "onnx/model.onnx"):
        assert f"{name}: the same within " in text
    names = {"config.json", "model.safetensors", "dict.txt", "README.md", "tokenizer.json",
             "tokenizer_config.json", "configuration_tupe.py", "modeling_tupe.py",
             "sentencepiece.bpe.model", "vocabulary.json", "report.json"}  # fmt: skip
    written = files(out) - {"special_tokens_map.json"}  # transformers 5 writes none
    assert written == {*names, *SENTENCE_FILES, "onnx/model.onnx"}
    assert os.listdir(tmp_path) == ["out"]
    assert len({path.stat().st_mode for path in out.iterdir() if path.is_file()}) == 1

    config = json.loads((out / "config.json").read_text())
    assert config["id2label"] == dict(zip("012", CLASSES))
    assert config["architectures"] == ["TupeForSequenceClassification"]
    card = (out / "README.md").read_text()
    front = card.split("---\n")[1].splitlines()
    assert "license: unknown" in front and "pipeline_tag: text-classification" in front
    facts = ["TUPE-R (", ", ".join(CLASSES), "1,234 examples", "trust_remote_code", "onnxruntime"]
    assert [fact for fact in facts if fact not in card] == [] and str(tmp_path) not in card

    classify = transformers.pipeline("text-classification", str(out), trust_remote_code=True)
    assert classify("The cat sat on the mat.")[0]["label"] in CLASSES
    path, tokens = out / "onnx" / "model.onnx", torch.tensor([[0, 7, 9, 12, 2], [0, 5, 2, 1, 1]])
    assert b".py" not in path.read_bytes()  # no stack traces
    inputs = {"input_ids": tokens.numpy(), "attention_mask": tokens.ne(1).long().numpy()}
    session = onnxruntime.InferenceSession(path)
    assert [entry.shape for entry in session.get_inputs()] == [["batch", "length"]] * 2
    # the process is as before
    assert os.environ["HF_MODULES_CACHE"] == cache and transformers.logging.get_verbosity() == 30
    found = session.run(["logits"], inputs)[0]
    hub = hub_of(finetuned.parent)
    expected = hub.predict(HEAD, tokens, return_logits=True)
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=0, atol=1e-5)


def test_the_card_of_a_model_of_pairs(tmp_path, monkeypatch, capsys):
    """Its example has two texts, and predicts what the checkpoint does."""
    checkpoint = write_fine_tuned(tmp_path / "run", texts=2)
    exported(checkpoint, tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    card = (tmp_path / "out" / "README.md").read_text()
    exec(card.split("```python\n")[1].split("```")[0])
    hub = hub_of(checkpoint.parent)
    expected = hub.predict_texts([("The cat sat on the mat.", "A cat sat.")])[0]
    found = ast.literal_eval(capsys.readouterr().out)
    assert found["label"] == expected["label"]
    assert found["score"] == pytest.approx(expected["probability"], abs=1e-5)


def test_sentence_transformers(finetuned, tmp_path):
    """A vector is the mean of the last hidden states of all tokens but padding."""
    library = pytest.importorskip("sentence_transformers", reason="it is tried by hand")
    exported(finetuned, tmp_path / "out")
    texts, options = ["The cat sat on the mat.", "Yes."], {"trust_remote_code": True}
    model = library.SentenceTransformer(str(tmp_path / "out"), device="cpu", **options)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out", **options)
    encoder = transformers.AutoModel.from_pretrained(tmp_path / "out", **options).eval()
    for text, vector in zip(texts, model.encode(texts)):
        with torch.no_grad():
            hidden = encoder(**tokenizer(text, return_tensors="pt")).last_hidden_state
        torch.testing.assert_close(torch.tensor(vector), hidden[0].mean(0), atol=1e-5, rtol=0)


def test_as_roberta_in_half_precision(vocabulary, tmp_path):
    checkpoint = write_model(tmp_path / "run", vocabulary, position_encoding="learned")
    state = torch.load(checkpoint, weights_only=False)
    state["model"] = {
        name: x.half() if x.is_floating_point() else x for name, x in state["model"].items()
    }
    torch.save(state, checkpoint)
    flags = ["--data", vocabulary, "--model-type", "roberta", "--pooling", "cls"]
    exported(checkpoint, tmp_path / "out", *flags)
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    card = (tmp_path / "out" / "README.md").read_text()
    assert not list((tmp_path / "out").glob("*.py")) and f"on {len(check.TEXTS)} texts" in card
    assert "trust_remote_code" not in card
    pooling = json.loads((tmp_path / "out" / "1_Pooling" / "config.json").read_text())
    assert pooling["pooling_mode_cls_token"] and not pooling["pooling_mode_mean_tokens"]


def test_tokens_that_the_dictionary_lacks(vocabulary, tmp_path):
    """Each of them has the vector of <unk>, and none is decoded."""
    folder = shutil.copytree(vocabulary, tmp_path / "cut")
    lines = (folder / "dict.txt").read_text().splitlines(keepends=True)
    (folder / "dict.txt").write_text("".join([*lines[:-3], "madeupword0000 0\n"]))
    checkpoint = write_model(tmp_path / "run", folder)
    text = exported(checkpoint, tmp_path / "out", "--data", folder)
    assert "3 tokens are not in dict.txt" in text
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    rows = load_file(tmp_path / "out" / "model.safetensors")["tupe.embed_tokens.weight"]
    assert len(rows) == config["vocab_size"] and rows[-1].equal(rows[3])
    (tmp_path / "out" / "dict.txt").unlink()
    convert([tmp_path / "out"], tmp_path / "back")
    found = torch.load(tmp_path / "back" / "model.pt", weights_only=False)["model"]
    expected = torch.load(checkpoint, weights_only=False)["model"]
    assert all(found[name].equal(expected[name]) for name in expected)


def test_overwrite(finetuned, vocabulary, tmp_path):
    """Only on request; files of an earlier export are removed, others stay."""
    out = tmp_path / "out"
    exported(finetuned, out)
    (out / "mine.txt").write_text("")
    learned = write_model(tmp_path / "run", vocabulary, position_encoding="learned")
    words = [learned, out, "--data", vocabulary, "--model-type", "roberta"]
    code, text = export(*words)
    assert code == 2 and "already holds" in text.splitlines()[-1]
    exported(*words, "--overwrite")
    assert "mine.txt" in files(out) and "modeling_tupe.py" not in files(out)
    assert json.loads((out / "config.json").read_text())["model_type"] == "roberta"


# ---- What is compared ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(finetuned, tmp_path_factory):
    out = tmp_path_factory.mktemp("exported") / "out"
    exported(finetuned, out)
    return str(out)


def test_segmentations_that_only_rounding_tells_apart(tmp_path, monkeypatch):
    """SentencePiece adds scores in float32; the exported tokenizer sees a difference of 2**-20."""
    from sentencepiece import sentencepiece_model_pb2

    data = write_pretrain_dir(tmp_path / "data")
    model = learn_sentencepiece(map(sentence, range(125)), 40, "unigram", 1.0, False)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    scores = {"\u2581q\u00e9": -5, "j": -4, "\u2581q": -4.5 - 2**-20, "\u00e9j": -4.5}
    for piece, score in scores.items():
        proto.pieces.add(piece=piece, score=score)
    path = data / "sentencepiece.bpe.model"
    path.write_bytes(proto.SerializeToString())
    write_dictionary(str(data / "dict.txt"), SentencePiece(str(path)).words())
    checkpoint = write_model(tmp_path / "run", data, max_positions=64)
    long = " ".join(map(sentence, range(3))) + " q\u00e9j"
    monkeypatch.setattr(check, "TEXTS", (long, "q\u00e9j"))
    exported(checkpoint, tmp_path / "out", "--data", data)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    encode = lambda text: [0, *Tokenizer.load(str(data)).encode(text), 2]  # noqa: E731
    assert [tokenizer(x).input_ids == encode(x) for x in ("q\u00e9j", long)] == [True, False]
    # a difference that is not rounding
    proto.pieces[-1].score = -4.49
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(
        ValueError, match="is .\u2581q\u00e9. in the folder.*, but .\u2581q. in the ch"
    ):
        check._same_ids(tokenizer, [long], lambda *texts: encode(texts[0]), 999)


@pytest.mark.parametrize("change", ["nothing", "a logit", "NaN", "ids of pairs"])
def test_the_comparison(change, folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    auto_class = transformers.AutoModelForSequenceClassification
    model = auto_class.from_pretrained(folder, trust_remote_code=True)

    def encode(*texts):
        ids = tokenizer(*texts)["input_ids"]
        return [*ids[:-1], 5, 2] if change == "ids of pairs" and len(texts) == 2 else ids

    def logits(ids):
        assert ids.size(1) <= 24
        found = model(ids, attention_mask=ids.ne(1).long()).logits.clone()
        found[-1, 2] += {"a logit": 2e-4, "NaN": float("nan")}.get(change, 0)
        return found

    words = folder, encode, {auto_class.__name__: logits}, len(tokenizer), 24
    if change == "nothing":
        assert check.check_folder(*words) == {auto_class.__name__: pytest.approx(0, abs=1e-5)}
        return
    with pytest.raises(
        ValueError, match="is .</s>. in the folder|differ from the checkpoint's by (2.0e-04|nan)"
    ):
        check.check_folder(*words)


# ---- What is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "flags, reason",
    [
        (["--data", "two"], "2 labels, but head sentence_classification_head has 3"),
        (["--model-type", "roberta"], "--model-type roberta: the checkpoint has position_encod"),
    ],
)
def test_refused(flags, reason, finetuned, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two" / "label").mkdir(parents=True)
    (tmp_path / "two" / "label" / "dict.txt").write_text("no 7\nyes 7\n")
    code, text = export(finetuned, "out", *flags)
    assert code == 2 and reason in text.splitlines()[-1]
    assert os.listdir(tmp_path) == ["two"]
