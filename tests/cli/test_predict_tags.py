"""tupe-predict on words: the tags that fairseq's task predicts for the prepared sentences."""

import json

import pytest
import torch

from helpers.exporting import MAX_POSITIONS, build, save
from helpers.glue_files import sentence, write_pretrain_dir
from helpers.predicting import predict
from helpers.running import call_program
from tupe_fairseq.data.task import Task
from tupe_fairseq.files import copy_vocabulary
from tupe_fairseq.inference.predict import predict as through_fairseq
from tupe_fairseq.models.tupe_roberta import TupeRobertaModel

HEAD = "token_tagging_head"
TAGS = ("O", "B-x", "I-x")


def sentences():
    """Words of one letter and more, also of nothing that is printed; up to 120 in a sentence."""
    texts = [" ".join(sentence(one) for one in range(n, n + n % 7 * n + 1)) for n in range(9)]
    found = [text.split() for text in texts]
    found[2][1] = "\u200b"
    found.append(["forgot" * 20, "A", "d" * 60])
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A checkpoint with what belongs beside it, its data, and the file of the sentences."""
    folder = tmp_path_factory.mktemp("tags")
    lines = []
    for words in sentences():
        tagged = zip(words, TAGS * len(words))
        lines += [f"{number}\t{word}\t{tag}\n" for number, (word, tag) in enumerate(tagged)] + [
            "\n"
        ]
    (folder / "in.conll").write_text("".join(lines))
    pretrained = write_pretrain_dir(folder / "pretrained")
    code, log = call_program(
        "prepare-task",
        ["--kind", "tagging", "--train", folder / "in.conll", "--valid", folder / "in.conll",
         "--text", 2, "--pretrain-dir", pretrained, "--output-dir", folder / "data",
         "--max-positions", MAX_POSITIONS, "--workers", 1],
    )  # fmt: skip
    assert code == 0, log
    torch.manual_seed(1)
    args, network = build(
        pretrained / "dict.txt", task="token_tagging", classification_head_name=HEAD,
        num_classes=len(TAGS), rel_pos=True,
    )  # fmt: skip
    network.register_tagging_head(HEAD, len(TAGS))
    torch.nn.init.normal_(network.classification_heads[HEAD].out_proj.weight)
    checkpoint = save(folder / "model", args, network)
    copy_vocabulary(str(folder / "data"), str(folder / "model"))
    return checkpoint, folder / "data", folder / "in.conll"


def expected(checkpoint, data):
    task = Task.load(str(data))
    found = through_fairseq(checkpoint, data, "valid", cpu=True)
    return [[task.labels[number] for number in tags] for tags in found]


def test_every_word_has_the_tag_of_fairseqs_task(model, tmp_path):
    checkpoint, data, source = model
    wanted = expected(checkpoint, data)
    assert [len(tags) for tags in wanted] == [len(words) for words in sentences()]
    assert len({tag for tags in wanted for tag in tags}) > 1
    for number, flags in enumerate(([], ["--batch-tokens", 1])):
        words = [checkpoint, source, "--text", 2, "--output-file", tmp_path / f"{number}.jsonl"]
        code, log = predict(*words, *flags)
        assert code == 0 and "longer than the model, tagged in windows: " in log, log
        rows = [json.loads(line) for line in open(tmp_path / f"{number}.jsonl", encoding="utf-8")]
        assert [row["2"] for row in rows] == sentences()
        assert [row["tags"] for row in rows] == wanted
    code, log = predict(checkpoint, source, "--text", 2, "--output-file", tmp_path / "out.tsv")
    assert code == 0, log
    header, *lines = (tmp_path / "out.tsv").read_text().splitlines()
    assert header == "1\t2\t3\ttags"
    assert [line.split("\t")[3].split() for line in lines] == wanted


def test_text_has_spaces_between_words(model, tmp_path):
    checkpoint, data, _ = model
    texts = [" ".join(words) for words in sentences()]
    lines = [json.dumps({"text": text}) + "\n" for text in [*texts, ""]]
    (tmp_path / "in.jsonl").write_text("".join(lines))
    words = [checkpoint, tmp_path / "in.jsonl", "--output-file", tmp_path / "out.jsonl"]
    code, log = predict(*words)
    assert code == 0, log
    rows = [json.loads(line) for line in open(tmp_path / "out.jsonl", encoding="utf-8")]
    assert [row["tags"] for row in rows] == [*expected(checkpoint, data), []]


def test_in_python(model):
    checkpoint, data, _ = model
    hub = TupeRobertaModel.from_pretrained(str(checkpoint.parent), checkpoint.name).eval()
    found = hub.predict_texts(sentences())
    assert [one["tags"] for one in found] == expected(checkpoint, data)
