"""Transformers model directories become checkpoints again, with the same bits."""

import json
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    RobertaForSequenceClassification,
)

from helpers.crafted import E, Touch
from helpers.models import LABELS, MEAN_POOLING, hub_of, write_fine_tuned, write_folder, write_model
from helpers.running import call_program, run_here
from helpers.vocabularies import write_roberta
from tupe_fairseq.data.tokenizer import VOCABULARY
from tupe_fairseq.export import modeling_tupe
from tupe_fairseq.export.names import Head
from tupe_fairseq.export.read_folder import read_folder
from tupe_fairseq.export.write_folder import CODE
from tupe_fairseq.kinds import KINDS
from tupe_fairseq.labelled.task import Task

HEAD = Head("mine", ["no", "yes", "perhaps"], KINDS["classification"])
WEIGHTS = "model.safetensors"
TOKENS = torch.tensor([[0, 7, 9, 11, 4, 2], [0, 9, 2, 1, 1, 1]])
REAL = TOKENS.ne(1)


def convert(folder, *flags):
    out = folder.parent / "out"
    return call_program("convert", [folder, "--output-dir", out, *flags])


def converted(folder, *flags):
    """The state dict, the options and what was printed."""
    code, text = convert(folder, *flags)
    assert code == 0, text
    state = torch.load(folder.parent / "out" / "model.pt", weights_only=False)
    return state["model"], vars(state["args"]), text


def refused(folder, *flags):
    code, text = convert(folder, *flags)
    (line,) = text.splitlines()
    assert code == 2 and not (folder.parent / "out").exists()
    return line.partition("error: ")[2]


def change_config(folder, **changed):
    """Change fields of a folder's config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].equal(tensor), name


# ---- Round trips --------------------------------------------------------------------------------


CASES = {
    "tupe": ([], {"rel_pos": True, "encoder_normalize_before": True}),
    "roberta": (["--model-type", "roberta"], {"position_encoding": "learned"}),
    "untied": ([], {"untie_weights_roberta": True, "position_encoding": "disentangled"}),
}


@pytest.mark.parametrize("case", CASES)
def test_weights_come_back_bit_by_bit(case, vocabulary, tmp_path):
    flags, options = CASES[case]
    checkpoint = write_model(tmp_path / "run", vocabulary, **options)
    run_here(
        "tupe-export", checkpoint, "--output-dir", tmp_path / "a", "--data", vocabulary, *flags
    )
    found, new_options, _ = converted(tmp_path / "a")
    assert_same(found, torch.load(checkpoint, weights_only=False)["model"])
    assert new_options["task"] == "masked_lm"
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        assert (tmp_path / "out" / name).read_bytes() == (vocabulary / name).read_bytes()


def test_an_earlier_folder_with_q_k_v_as_one_parameter(tmp_path):
    model = write_folder(tmp_path / "a").state_dict()
    tensors = load_file(tmp_path / "a" / WEIGHTS)
    renamed = {name.replace(".in_proj.", ".in_proj_"): x for name, x in tensors.items()}
    assert set(renamed) != set(tensors)
    save_file(renamed, tmp_path / "a" / WEIGHTS)
    assert_same(converted(tmp_path / "a")[0], model)


def test_the_config_of_a_tupe_r_without_rel_pos(tmp_path):
    """Options without effect are left out: all of T5's bias, but shaw uses max_rel_pos."""
    for name, kept in (("tupe", {}), ("rope", {}), ("shaw", {"max_rel_pos": 5})):
        write_folder(tmp_path / name, position_encoding=name, **kept)
        path = tmp_path / name / "config.json"
        more = {"rel_pos": False, "rel_pos_buckets": 8, "max_rel_pos": 5}
        path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
        options = vars(read_folder(str(tmp_path / name), None, None).options)
        sizes = ("rel_pos_buckets", "max_rel_pos")
        assert {x: options[x] for x in sizes if options.get(x)} == kept


def test_after_a_training_with_transformers(vocabulary, tmp_path):
    """Trainer saves a classifier with its tokenizer, but without dict.txt and the LM head."""
    heads = {"mine": 3, "other": 2}
    options = {"tie_cls": True, "classification_head_name": "mine", **MEAN_POOLING}
    checkpoint = write_model(tmp_path / "run", vocabulary, heads, **options)
    run_here("tupe-export", checkpoint, "--output-dir", tmp_path / "a", "--data", vocabulary)
    model = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "a", trust_remote_code=True
    )
    step = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(TOKENS, attention_mask=REAL.long(), labels=torch.tensor([1, 2])).loss.backward()
    step.step()
    model.save_pretrained(tmp_path / "tuned")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "a")
    tokenizer.save_pretrained(tmp_path / "tuned")
    assert not (tmp_path / "tuned" / "dict.txt").exists()
    with torch.no_grad():
        expected = model.eval()(TOKENS, attention_mask=REAL.long()).logits

    pieces = vocabulary / "sentencepiece.bpe.model"
    state, options, text = converted(tmp_path / "tuned", "--sentencepiece-model", pieces)
    assert "THE FOLDER HAS NO LM HEAD" in text and options["pooling"] == "mean"
    assert state[E + "layers.1.fc1.weight"].equal(model.tupe.encoder.layers[1].fc1.weight)
    hub = hub_of(tmp_path / "out")
    found = hub.predict("mine", TOKENS, return_logits=True)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    # cleaned as by the folder's tokenizer
    for line in ("The cat is on the mat.", "The cafe\u0301 is\x07 on.", "THE CAT"):
        assert hub.encode(line).tolist() == tokenizer(line)["input_ids"]


def test_labels_in_another_order_than_those_of_the_task(tmp_path):
    """tupe-convert writes labels without report.json; tupe-predict gives each output a label."""
    task = {"name": "x", "kind": "classification", "labels": ["bad", "very good"], "texts": 1}
    task.update(splits=[], metrics=[], selection="accuracy")
    model, data = tmp_path / "model", tmp_path / "data"
    for folder in (model / "label", data):
        folder.mkdir(parents=True)
    (data / "report.json").write_text(json.dumps({"description": task}))
    (model / "label" / "dict.txt").write_text("bad 1\nvery%20good 1\nmadeupword0000 0\n")
    assert Task.load(str(data), str(model)).labels == ("bad", "very good")
    (model / "label" / "dict.txt").write_text("LABEL_0 1\nLABEL_1 1\n")  # transformers' default
    assert Task.load(str(data), str(model)).labels == ("bad", "very good")
    (model / "label" / "dict.txt").write_text("very%20good 1\nbad 1\n")
    with pytest.raises(ValueError, match="must be the same, in this order"):
        Task.load(str(data), str(model))


HEADS = {  # transformers' problem_type, and fairseq's options
    "classification": ("single_label_classification", {"task": "sentence_prediction"}),
    "tagging": (None, {"task": "token_tagging"}),
    "tagging --model-type roberta": (None, {"task": "token_tagging"}),
    "regression": ("regression", {"regression_target": True, "num_classes": 1}),
    "multilabel": ("multi_label_classification", {"multilabel": True, "num_classes": 3}),
}


@pytest.mark.parametrize("case", HEADS)
def test_heads(case, tmp_path):
    (kind, *flags), (problem_type, expected) = case.split(), HEADS[case]
    checkpoint = write_fine_tuned(tmp_path / "run", kind, position_encoding="learned")
    data = tmp_path / "data of run"
    (data / "report.json").write_text("{}")  # like that of pre-training, without a task
    run_here("tupe-export", checkpoint, "--data", data, "--output-dir", tmp_path / "a", *flags)
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert config["id2label"] == dict(zip("012", LABELS[kind] or ["score"]))
    assert config.get("problem_type") == problem_type
    name = "Token" if kind == "tagging" else "Sequence"
    model_type = "Roberta" if flags else "Tupe"
    assert config["architectures"] == [f"{model_type}For{name}Classification"]
    found, options, text = converted(tmp_path / "a")
    model = torch.load(checkpoint, weights_only=False)["model"]
    if flags:
        assert "THE FOLDER HAS NO LM HEAD" in text
        model = {name: found[name] if "lm_head" in name else x for name, x in model.items()}
    assert_same(found, model)
    assert options.items() >= expected.items()
    if LABELS[kind]:
        labels = [out / "label" / "dict.txt" for out in (tmp_path / "run", tmp_path / "out")]
        assert labels[0].read_text() == labels[1].read_text()
    texts = [["Ann", "sees", "it"]] if kind == "tagging" else ["Ann sees it."]
    hubs = (hub_of(tmp_path / x) for x in ("run", "out"))
    before, after = (hub.predict_texts(texts) for hub in hubs)
    assert before == after
    change_config(tmp_path / "a", id2label={n: f"x{n}" for n in config["id2label"]})
    if LABELS[kind]:
        shutil.rmtree(tmp_path / "out")
        assert "report.json and config.json differ in labels" in refused(tmp_path / "a")


@pytest.mark.parametrize("kind", ["QuestionAnswering", "MultipleChoice"])
def test_heads_that_only_transformers_has_are_left_out(kind, tmp_path):
    expected = write_folder(tmp_path / "a").state_dict()
    model_class = getattr(modeling_tupe, f"TupeFor{kind}")
    model_class.from_pretrained(tmp_path / "a").save_pretrained(tmp_path / "b")
    shutil.copy(tmp_path / "a" / "dict.txt", tmp_path / "b")
    state, options, text = converted(tmp_path / "b")
    assert "fairseq's models have no place for it" in text and "heads: none" in text
    assert options["task"] == "masked_lm"
    for name, x in expected.items():
        assert "lm_head" in name or state[name].equal(x.to(state[name])), name


def test_a_model_without_any_head(tmp_path):
    model, path = write_folder(tmp_path / "a").state_dict(), tmp_path / "a" / WEIGHTS
    tensors = load_file(path)
    tensors = {k.removeprefix("tupe."): v for k, v in tensors.items() if "lm_head" not in k}
    save_file({**tensors, "qa_outputs.bias": torch.ones(2)}, path)
    found, _, text = converted(tmp_path / "a")
    assert "THE FOLDER HAS NO LM HEAD" in text and "left out qa_outputs.bias" in text
    assert_same(found, {n: found[n] if "lm_head" in n else x for n, x in model.items()})
    assert found["encoder.lm_head.weight"].equal(found[E + "embed_tokens.weight"])
    assert 0.01 < found["encoder.lm_head.dense.weight"].std() < 0.04


# ---- RoBERTa ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"type_vocab_size": 2}, {"tie_word_embeddings": False}])
def test_a_roberta_computes_the_same(options, tmp_path):
    _, model = write_roberta(tmp_path / "a", **options)
    converted(tmp_path / "a")
    hub = hub_of(tmp_path / "out")
    with torch.no_grad():
        expected = model(TOKENS, attention_mask=REAL.long()).logits
        found, _ = hub.model(TOKENS)
    torch.testing.assert_close(found[REAL], expected[REAL], rtol=1e-5, atol=1e-5)


def test_a_roberta_with_a_head(tmp_path):
    """Also without id2label: transformers leaves its default label names out of config.json."""
    _, model = write_roberta(tmp_path / "a", kind=RobertaForSequenceClassification)
    converted(tmp_path / "a")
    hub = hub_of(tmp_path / "out")
    with torch.no_grad():
        expected = model(TOKENS, attention_mask=REAL.long()).logits
    found = hub.predict("sentence_classification_head", TOKENS, return_logits=True)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert (tmp_path / "out" / "label" / "dict.txt").read_text() == "LABEL_0 1\nLABEL_1 1\n"
    change_config(tmp_path / "a", hidden_act="relu")
    (tmp_path / "out").rename(tmp_path / "earlier")
    message = "hidden_act is 'relu'; the model can be read only if"
    assert message in refused(tmp_path / "a")


# ---- What is refused ----------------------------------------------------------------------------


def tensors(change):
    def change_file(folder):
        found = load_file(folder / WEIGHTS)
        change(found)
        save_file(found, folder / WEIGHTS)

    return change_file


def config(**changed):
    return lambda folder: change_config(folder, **changed)


FC1 = "tupe.encoder.layers.1.fc1.weight"
REFUSED = {
    "damaged": (lambda folder: (folder / WEIGHTS).write_bytes(b"123"), f"{WEIGHTS} is damaged"),
    "a list": (
        lambda folder: (folder / "config.json").write_text("[]"),
        "config.json is not a JSON object",
    ),
    "code": (config(hidden_act="__import__('os')"), "which must be one of gelu"),
    "dictionary": (
        lambda folder: (folder / "dict.txt").write_text(
            "".join(f"word{n} 1\n" for n in range(1, 32))
        ),
        "a different vocabulary of the same size, not with",
    ),
    "layers": (config(num_hidden_layers=3), ": --encoder-layers is 2 in the checkpoint and 3"),
    "width": (config(hidden_size=17), ": --encoder-embed-dim is 16 in the checkpoint and 17"),
    "unknown": (tensors(lambda t: t.update(x=torch.ones(2))), "tensor x has no place"),
    "nan": (tensors(lambda t: t[FC1].fill_(float("nan"))), "fc1.weight holds NaN or infinity"),
    "labels": (config(id2label={"0": "a"}), "id2label must give each of the head's 3 outputs"),
}


def test_a_folder_with_added_tokens(vocabulary, tmp_path):
    checkpoint = write_model(tmp_path / "run", vocabulary)
    run_here("tupe-export", checkpoint, "--output-dir", tmp_path / "a", "--data", vocabulary)
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "a", trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "a")
    tokenizer.add_tokens(["newword"])
    model.resize_token_embeddings(len(tokenizer))
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "b")
    assert "tokens were added to" in (line := refused(tmp_path / "b")) and "(newword)" in line


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, tmp_path):
    change, message = REFUSED[case]
    write_folder(tmp_path / "a", HEAD)
    change(tmp_path / "a")
    assert message in refused(tmp_path / "a")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_between_pieces(path):
    pieces = ModelProto.FromString(path.read_bytes()).pieces
    path.write_bytes(ModelProto(pieces=pieces[:20]).SerializeToString())


PARTS = [  # files of a folder of tupe-export, and of a RoBERTa
    *(
        ("tupe", name, how)
        for name in ("sentencepiece.bpe.model", VOCABULARY)
        for how in (Path.unlink, cut)
    ),
    ("tupe", "sentencepiece.bpe.model", cut_between_pieces),
    ("tupe", "tokenizer.json", cut),
    ("roberta", "tokenizer.json", cut),
]


def test_a_vocabulary_of_which_a_part_is_missing_or_cut(vocabulary, tmp_path):
    """tupe-convert refuses it and names the file, as do tupe-extend and tupe-score later."""
    checkpoint = write_model(tmp_path / "run", vocabulary)
    run_here("tupe-export", checkpoint, "--output-dir", tmp_path / "tupe", "--data", vocabulary)
    write_roberta(tmp_path / "roberta")
    for kind, name, change in PARTS:
        shutil.copytree(tmp_path / kind, tmp_path / "a")
        change(tmp_path / "a" / name)
        message = refused(tmp_path / "a")
        assert name in message and str(tmp_path / "a") in message, (name, message)
        shutil.rmtree(tmp_path / "a")
    converted(tmp_path / "tupe")
    (tmp_path / "out" / "sentencepiece.bpe.model").unlink()
    for command, words in {
        "extend": ["--max-positions", 99, "--method", "tile", "--output-dir", tmp_path / "b"],
        "score": ["--input", vocabulary / "dict.txt", "--output-file", tmp_path / "b.tsv"],
    }.items():
        code, text = call_program(command, [tmp_path / "out", *words])
        path = tmp_path / "out" / "sentencepiece.bpe.model"
        assert code == 2 and f"{path} is missing" in text and not (tmp_path / "b").exists(), text


def test_folders_and_files_that_are_not_meant(tmp_path):
    """A checkpoint of this project, one without a dictionary, and the input folder as output."""
    write_folder(tmp_path / "a")
    converted(tmp_path / "a")
    own, files = tmp_path / "out", {path.name for path in tmp_path.glob("*/*")}

    def line(command, *words):
        code, text = call_program(command, [*words, "--overwrite"])
        assert code == 2
        return text.splitlines()[-1]

    out = ["--output-dir", tmp_path / "b"]
    assert "is a checkpoint of this project" in line("convert", own, *out)
    for command, words in {
        "convert": [tmp_path / "a", "--output-dir", tmp_path / "a"],
        "convert ": [own / "model.pt", "--untie", "--output-dir", own],
        "extend": [own, "--max-positions", 99, "--method", "tile", "--output-dir", own],
        "export": [own, "--output-dir", own],
    }.items():
        assert "is also an input folder; give" in line(command.strip(), *words)
    assert {path.name for path in tmp_path.glob("*/*")} == files
    (own / "dict.txt").unlink()
    message = line("convert", own, *out)
    assert f"{own / 'dict.txt'} is missing; give --dictionary" in message


def test_no_code_of_a_folder_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "a"
    write_folder(folder)
    change_config(folder, auto_map={"AutoConfig": "evil.Config", "AutoModel": "evil.Model"})
    for name in ("evil.py", "setup.py", *CODE):
        (folder / name).write_text("import os\nos.mkdir('code-ran')\n")
    converted(folder)
    with open(folder / "pytorch_model.bin", "wb") as file:
        pickle.dump(Touch("code-ran"), file)
    (folder / WEIGHTS).unlink()
    (tmp_path / "out").rename(tmp_path / "earlier")
    assert f"{WEIGHTS} is missing; save the model with" in refused(folder)
    assert not (tmp_path / "code-ran").exists()
