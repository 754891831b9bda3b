"""Model folders back into checkpoints: what is read from which file, and what is refused."""

import json
import os

import pytest
import torch
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode
from safetensors.torch import load_file, save_file

from helpers.crafted import LINES, E, whole_state
from helpers.model_folders import HEAD, change_config, with_head, write_folder, write_tokenizer
from helpers.running import call_program
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.checkpoint.state_dict import symbols_of
from tupe_fairseq.commands.convert import main
from tupe_fairseq.export.folder_config import Head
from tupe_fairseq.export.unlisted_pieces import with_unlisted_rows
from tupe_fairseq.labelled.task_description import MULTILABEL, TAGGING

WEIGHTS = "model.safetensors"


def convert(folder, out, *flags):
    return call_program(main, ["--checkpoint", folder, "--output-dir", out, *flags])


def converted(folder, *flags):
    """The state dict, the options and what was printed."""
    out = folder.parent / "out"
    code, text = convert(folder, out, *flags)
    assert code == 0, text
    state = torch.load(out / "model.pt")
    return state["model"], vars(state["args"]), text


def refused(folder, *flags):
    code, text = convert(folder, folder.parent / "out", *flags)
    (line,) = text.splitlines()
    assert code == 2 and not (folder.parent / "out").exists()
    return line.partition("error: ")[2]


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].equal(tensor), name


def change_tensors(folder, change):
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


def test_weights_come_back_bit_by_bit(tmp_path):
    model = whole_state()["model"]
    found, options, _ = converted(write_folder(tmp_path / "a", model))
    assert_same(found, model)
    assert options["task"] == "masked_lm" and options["rel_pos"] is False
    assert (tmp_path / "out" / "dict.txt").read_text() == "\n".join(LINES) + "\n"
    hub = TupeRobertaModel.from_pretrained(str(tmp_path / "out")).eval()
    assert hub.extract_features(torch.tensor([[0, 5, 7, 2]])).isfinite().all()


@pytest.mark.parametrize("from_tokenizer", [False, True])
def test_words_for_unlisted_pieces_do_not_come_back(from_tokenizer, tmp_path):
    model = whole_state()["model"]
    folder = write_folder(tmp_path / "a", model)
    symbols = symbols_of(LINES)
    change_config(folder, unlisted_pieces=2, vocab_size=len(symbols) + 2)
    save_file(with_unlisted_rows(load_file(folder / WEIGHTS), 2), folder / WEIGHTS)
    if from_tokenizer:
        ids = {word: number for number, word in enumerate(symbols)}
        ids.update({"un": len(symbols), "listed": len(symbols) + 1})
        content = {"model": {"vocab": ids}, "added_tokens": []}
        (folder / "tokenizer.json").write_text(json.dumps(content))
        (folder / "dict.txt").unlink()
    found, _, _ = converted(folder)
    assert_same(found, model)


@pytest.mark.parametrize("number", [-1, "2", 10**9, True])
def test_a_wrong_number_of_unlisted_pieces(number, tmp_path):
    folder = write_folder(tmp_path / "a")
    change_config(folder, unlisted_pieces=number)
    assert "must be a whole number below vocab_size" in refused(folder)


def test_a_fine_tuned_folder(tmp_path):
    model = with_head(whole_state()["model"])
    found, options, text = converted(write_folder(tmp_path / "a", model, HEAD))
    assert_same(found, model)
    assert options["task"] == "sentence_prediction" and options["num_classes"] == 3
    assert options["classification_head_name"] == "mine"
    assert options["regression_target"] is False
    assert "classification heads: {'mine': 3}" in text
    out = tmp_path / "out"
    assert (out / "label" / "dict.txt").read_text() == "no 1\nyes 1\nperhaps 1\n"
    assert (out / "input0" / "dict.txt").read_text() == (out / "dict.txt").read_text()
    hub = TupeRobertaModel.from_pretrained(str(out)).eval()
    assert hub.predict("mine", torch.tensor([[0, 5, 7, 2]])).shape == (1, 3)
    labels = hub.task.label_dictionary
    assert labels.string([1 + labels.nspecial]) == "yes"


def test_a_regression(tmp_path):
    head = Head("sentence_classification_head", ["score"], "regression")
    model = with_head(whole_state()["model"], head)
    found, options, _ = converted(write_folder(tmp_path / "a", model, head))
    assert_same(found, model)
    assert options["regression_target"] is True and options["num_classes"] == 1
    assert not (tmp_path / "out" / "label").exists()
    hub = TupeRobertaModel.from_pretrained(str(tmp_path / "out")).eval()
    assert hub.predict(head.name, torch.tensor([[0, 5, 2]]), return_logits=True).shape == (1, 1)


def test_names_that_nobody_gave(tmp_path):
    """transformers does not write its own default, two classes without names."""
    head = Head("sentence_classification_head", ["x", "y"], "classification")
    folder = write_folder(tmp_path / "a", with_head(whole_state()["model"], head), head)
    change_config(folder, id2label=None, label2id=None, classification_head_name=None)
    (tmp_path / "labels").write_text("good 3\nbad 2\n")
    converted(folder)
    assert (tmp_path / "out" / "label" / "dict.txt").read_text() == "LABEL_0 1\nLABEL_1 1\n"
    _, options, _ = converted(folder, "--label-dict", tmp_path / "labels", "--overwrite")
    assert (tmp_path / "out" / "label" / "dict.txt").read_text() == "good 3\nbad 2\n"
    assert options["classification_head_name"] == "sentence_classification_head"


@pytest.mark.parametrize("head", [None, HEAD])
def test_a_folder_without_an_lm_head(head, tmp_path):
    """As transformers saves a classifier, and a model without any head."""
    model = whole_state()["model"] if head is None else with_head(whole_state()["model"])
    folder = write_folder(tmp_path / "a", model, head)
    tensors = {k: v for k, v in load_file(folder / WEIGHTS).items() if not k.startswith("lm_head")}
    if head is None:
        tensors = {k.partition(".")[2]: v for k, v in tensors.items()}
    save_file(tensors, folder / WEIGHTS)
    found, _, text = converted(folder)
    assert "THE FOLDER HAS NO LM HEAD" in text
    new = {name for name in model if name.startswith("encoder.lm_head.")}
    assert set(found) == set(model)
    assert_same(*({k: v for k, v in m.items() if k not in new} for m in (found, model)))
    assert found["encoder.lm_head.weight"].equal(found[E + "embed_tokens.weight"])
    assert 0.01 < found["encoder.lm_head.dense.weight"].std() < 0.04
    assert found["encoder.lm_head.bias"].eq(0).all()
    again, _, _ = converted(folder, "--overwrite")
    assert_same(again, found)


def test_a_head_that_fairseq_has_not(tmp_path):
    folder = write_folder(tmp_path / "a")
    shape = {"qa_outputs.weight": torch.ones(2, 8), "qa_outputs.bias": torch.ones(2)}
    change_tensors(folder, lambda tensors: tensors.update(shape))
    _, options, text = converted(folder)
    assert "left out the question-answering head" in text and text.count("left out") == 1
    assert options["task"] == "masked_lm"


def test_tags_of_words(tmp_path):
    head = Head("mine", ["O", "B-my place", "I-my place"], TAGGING)
    model = with_head(whole_state()["model"], head)
    # which is for whole texts
    folder = write_folder(tmp_path / "a", model, head, classifier_pooling="mean")
    found, options, text = converted(folder)
    assert_same(found, model)
    assert "pooling" not in options
    assert options["task"] == "token_tagging" and options["num_classes"] == 3
    assert "left out" not in text
    labels = tmp_path / "out" / "label" / "dict.txt"
    assert labels.read_text() == "O 1\nB-my%20place 1\nI-my%20place 1\n"
    hub = TupeRobertaModel.from_pretrained(str(tmp_path / "out")).eval()
    assert hub.task.tags == head.labels
    assert hub.model.classification_heads["mine"].out_proj.weight.equal(
        model["classification_heads.mine.out_proj.weight"]
    )
    converted(folder, "--label-dict", labels, "--overwrite")
    assert labels.read_text().startswith("O 1\nB-my%20place 1\n")
    # as the library names one that it has made by itself
    change_config(folder, classification_head_name=None)
    found, _, _ = converted(folder, "--overwrite")
    assert "classification_heads.token_tagging_head.out_proj.bias" in found


def test_labels_of_texts(tmp_path):
    head = Head("mine", ["very good", "long"], MULTILABEL)
    model = with_head(whole_state()["model"], head)
    found, options, _ = converted(write_folder(tmp_path / "a", model, head))
    assert_same(found, model)
    assert options["multilabel"] is True and options["regression_target"] is False
    labels = tmp_path / "out" / "label" / "dict.txt"
    assert labels.read_text() == "very%20good 1\nlong 1\n"
    hub = TupeRobertaModel.from_pretrained(str(tmp_path / "out")).eval()
    assert hub.predict("mine", torch.tensor([[0, 5, 2]]), return_logits=True).shape == (1, 2)


def test_half_precision_in_parts(tmp_path):
    model = whole_state()["model"]
    folder = write_folder(tmp_path / "a", model)
    tensors = {k: v.bfloat16() for k, v in load_file(folder / WEIGHTS).items()}
    os.remove(folder / WEIGHTS)
    names = sorted(tensors)
    places = {}
    for part, chosen in (("model-1.safetensors", names[::2]), ("model-2.safetensors", names[1::2])):
        save_file({name: tensors[name] for name in chosen}, folder / part)
        places.update(dict.fromkeys(chosen, part))
    index = folder / f"{WEIGHTS}.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
    found, _, _ = converted(folder)
    rounded = {
        name: tensor.bfloat16().float() if tensor.is_floating_point() else tensor
        for name, tensor in model.items()
    }
    assert_same(found, rounded)

    (tmp_path / "out").rename(tmp_path / "earlier")
    for odd in ("../a/model-1.safetensors", "/etc/passwd", "model-1.bin"):
        index.write_text(json.dumps({"weight_map": {**places, names[0]: odd}}))
        assert "which is no file of the folder" in refused(folder)
    index.write_text(json.dumps({"weight_map": {**places, names[0]: "model-2.safetensors"}}))
    assert "do not agree on the tensor" in refused(folder)
    index.write_text(json.dumps({"weight_map": {**places, names[0]: 3}}))
    assert "is damaged, or of another program" in refused(folder)
    index.write_text(json.dumps({"weight_map": places}))
    os.remove(folder / "model-2.safetensors")
    assert "model-2.safetensors is missing" in refused(folder)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_the_dictionary_of_a_folder_that_has_only_a_tokenizer(kind, tmp_path):
    folder = write_folder(tmp_path / "a")
    write_tokenizer(folder, symbols_of(LINES), kind)
    converted(folder)
    text = (tmp_path / "out" / "dict.txt").read_text()
    assert [line.split()[0] for line in text.splitlines()] == [line.split()[0] for line in LINES]


def test_the_pieces_of_fastbpe(tmp_path):
    """A word's end is marked there, and in dict.txt that a word goes on; symbols have stand-ins."""
    lines = ["<url> 1", "th@@ 1", "e 1", "@@ 1", "e@@ 1", "madeupword0000 1", "x 1"]
    folder = write_folder(tmp_path / "a", lines=lines)
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "\ue001</w>", "th", "e</w>", "@@</w>", "e",
              "madeupword0000</w>", "x</w>", "<mask>"]  # fmt: skip
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    special = [*range(4), 11]
    content = {
        "model": {"type": "BPE", "vocab": vocabulary, "end_of_word_suffix": "</w>"},
        "added_tokens": [{"id": n, "content": pieces[n]} for n in special],
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "BPEDecoder", "suffix": "</w>"},
            {"type": "Replace", "pattern": {"String": "\ue001"}, "content": "<url>"},
        ]},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(content))
    (folder / "dict.txt").unlink()
    converted(folder)
    assert (tmp_path / "out" / "dict.txt").read_text().splitlines() == lines


def test_the_numbers_of_gpt2(tmp_path):
    lines = [f"{number} 1" for number in (7, 3, 262, 1, 5, 2)] + ["madeupword0000 1"]
    folder = write_folder(tmp_path / "a", lines=lines)
    numbers = {"t": 7, "h": 3, "\u0120the": 262, "a": 1, "b": 5, "c": 2, "d": 9}
    pieces = [*("<s>", "<pad>", "</s>", "<unk>"), *list(numbers)[:6], "madeupword0000", "<mask>"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}))
    (folder / "dict.txt").unlink()
    assert "is not the dictionary that" in refused(folder)
    numbers.update({piece: 1000 + n for n, piece in enumerate(bytes_to_unicode().values())
                    if piece not in numbers})  # fmt: skip
    (tmp_path / "encoder.json").write_text(json.dumps({**numbers, "th": 2000}))
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\nt h\n")
    converted(folder, "--gpt2-encoder-json", tmp_path / "encoder.json", "--gpt2-vocab-bpe",
              tmp_path / "vocab.bpe")  # fmt: skip
    assert (tmp_path / "out" / "dict.txt").read_text().splitlines() == lines


TOKENIZERS = {
    "no_vocabulary": ({"model": {}}, "model.vocab is missing"),
    "two": ({"model": {"vocab": {"a": 0, "b": 0}}}, "the id 0 is given to two words"),
    "a_gap": ({"model": {"vocab": {"a": 0, "b": 2}}}, "the id 1 is not given to any word"),
    "a_text": ({"model": {"vocab": {"a": "0"}}}, "model.vocab.a is '0', not a whole number"),
    "no_pair": ({"model": {"vocab": [["a", 0], []]}}, "is missing"),
    "twice": ({"model": {"vocab": [["a", 0], ["a", 0]]}}, "lists a word twice"),
    "others": (
        {"model": {"vocab": {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3}}},
        "begins with [PAD] [CLS] [SEP] [UNK]",
    ),
    "a_space": (
        {"model": {"vocab": {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, " a": 4}}},
        "cannot be written in dict.txt",
    ),
}


@pytest.mark.parametrize("case", TOKENIZERS)
def test_tokenizers_that_make_no_dictionary(case, tmp_path):
    folder = write_folder(tmp_path / "a")
    (folder / "dict.txt").unlink()
    content, message = TOKENIZERS[case]
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert message in refused(folder)


def test_another_dictionary(tmp_path):
    folder = write_folder(tmp_path / "a")
    other = tmp_path / "other.txt"
    other.write_text("\n".join(LINES[::-1]) + "\n")
    assert "--dict is not the dictionary that" in refused(folder, "--dict", other)
    (folder / "dict.txt").write_text("\n".join([*LINES, "more 1"]) + "\n")
    message = refused(folder)
    assert "has 12 rows, and" in message and "makes 13 symbols" in message
    right = tmp_path / "right.txt"
    right.write_text("\n".join(LINES) + "\n")
    converted(folder, "--dict", right)


def test_a_resized_embedding(tmp_path):
    folder = write_folder(tmp_path / "a")
    name = "tupe.embed_tokens.weight"
    change_tensors(folder, lambda t: t.update({name: torch.randn(16, 8)}))
    assert "either the embedding was padded or resized" in refused(folder)


def remove(name):
    return lambda folder: os.remove(folder / name)


def tensors(change):
    return lambda folder: change_tensors(folder, change)


def config(**changed):
    return lambda folder: change_config(folder, **changed)


def only_a_pickle(folder):
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


FC1 = "tupe.encoder.layers.1.fc1.weight"
REFUSED = {
    "no_config": (remove("config.json"), "config.json is missing; give a folder as"),
    "no_weights": (remove(WEIGHTS), f"{WEIGHTS} is missing"),
    "no_dictionary": (remove("dict.txt"), "has neither dict.txt nor tokenizer.json; give --dict"),
    "a_pickle": (only_a_pickle, "pytorch_model.bin, which could run code and is not read; save "),
    "another_type": (config(model_type="gpt2"), "model_type is gpt2; only tupe and roberta can"),
    "no_type": (config(model_type=["tupe"]), "model_type is a list; only tupe and roberta can"),
    "no_size": (config(hidden_size=None), "config.json does not say hidden_size"),
    "text": (config(num_hidden_layers="2"), "encoder_layers is '2', which must be a whole number"),
    "large": (config(num_hidden_layers=10**6), "which must be a whole number from 1 to 1000"),
    "code": (config(hidden_act="__import__('os')"), "which must be one of gelu"),
    "a_head": (config(classification_head_name="../a"), "classification_head_name is '../a'"),
    "layers": (config(num_hidden_layers=3), "encoder_layers is 3, but its tensors have 2"),
    "rel_pos": (config(rel_pos=True), "missing encoder.sentence_encoder.position_bias.relative"),
    "missing": (tensors(lambda t: t.pop(FC1)), "missing encoder.sentence_encoder.layers.1.fc1"),
    "superfluous": (tensors(lambda t: t.update(x=torch.ones(2))), "tensor x has no place"),
    "nan": (tensors(lambda t: t[FC1].fill_(float("nan"))), "fc1.weight holds NaN or infinity"),
    "integers": (tensors(lambda t: t.update({FC1: torch.ones(12, 8).long()})), "is torch.int64"),
    "shape": (
        tensors(lambda t: t.update({FC1: torch.ones(12, 9)})), "fc1.weight is [12, 9], not [12, 8]",
    ),
    "untied": (config(tie_word_embeddings=False), "missing encoder.lm_head.weight"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, tmp_path):
    change, message = REFUSED[case]
    folder = write_folder(tmp_path / "a")
    change(folder)
    assert message in refused(folder)


LABELS = {
    "fewer": ({"id2label": {"0": "a"}}, [], "names 1 classes in id2label, and the"),
    "others": ({"id2label": {"0": "a", "1": "b", "5": "c"}}, [], "names 3 classes in id2label"),
    "same": ({"id2label": {"0": "a", "1": "a", "2": "c"}}, [], "two classes of id2label the same"),
    "a_list": ({"id2label": ["a", "b", "c"]}, [], "id2label is ['a', 'b', 'c'], not an object"),
    "empty": (
        {"id2label": {"0": "", "1": "b", "2": "c"}},
        [],
        "gives a class of id2label no name",
    ),
    "swapped": ({}, ["yes", "no", "perhaps"], "but in"),
    "short": ({}, ["no", "yes"], "--label-dict lists 2 labels, but the head has 3 classes"),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_that_do_not_fit(case, tmp_path):
    changed, labels, message = LABELS[case]
    folder = write_folder(tmp_path / "a", with_head(whole_state()["model"]), HEAD)
    change_config(folder, **changed)
    (tmp_path / "labels").write_text("".join(f"{label} 1\n" for label in labels))
    flags = ["--label-dict", tmp_path / "labels"] if labels else []
    assert message in refused(folder, *flags)


def test_flags_beside_a_folder_or_a_file(tmp_path):
    folder = write_folder(tmp_path / "a")
    (tmp_path / "labels").write_text("a 1\n")
    message = refused(folder, "--label-dict", tmp_path / "labels")
    assert "has no classification head" in message
    assert "is a file, which needs --dict" in refused(folder / WEIGHTS)


def test_the_dropout_of_the_head_is_not_said(tmp_path):
    """A field that it may lack, and that the commands to go on with would have as a flag."""
    folder = write_folder(tmp_path / "folder")
    change_config(folder, classifier_dropout=None)
    _, _, text = converted(folder)
    assert "--attention-dropout" in text and "--pooler-dropout" not in text
