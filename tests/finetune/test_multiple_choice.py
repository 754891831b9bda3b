"""Multiple choice: from public layouts to the exported folder."""

import random

import pytest
import torch
from transformers import AutoModelForMultipleChoice, AutoTokenizer

from helpers import training
from helpers.glue_files import write_pretrain_dir
from helpers.models import hub_of, write_model
from helpers.rows import read_json_lines, write_json_lines
from helpers.running import call_program, refused, run_here, trainings_here
from helpers.vocabularies import convert
from tupe_fairseq.data.indexed import read_sentences
from tupe_fairseq.data.task import Task
from tupe_fairseq.files import read_json

WORDS = "the cat dog bird fish friend house tree apples sea an old".split()
KINDS = {"who likes": ["cat", "dog"], "who sees": ["tree", "house"]}


def rows(seed, number):
    """The right candidate has a word of the kind that the question names, the others do not."""
    draw, found = random.Random(seed), []
    for _ in range(number):
        kind, right = draw.choice([*KINDS]), draw.randrange(3)
        others = [word for word in WORDS if word not in KINDS[kind]]
        endings = [draw.choices(others, k=draw.randint(1, 4)) for _ in range(3)]
        endings[right].insert(0, draw.choice(KINDS[kind]))
        texts = [" ".join(words) for words in endings]
        found.append({"ctx": kind, "endings": texts, "label": str(right)})
    return found


def words(place, out, train):
    flags = ["--kind", "choice", "--pretrain-dir", place / "bin", "--output-dir", out]
    return [*flags, "--train", train, "--workers", 1]


def prepare(place, out, train, *flags):
    return call_program("prepare-task", [*words(place, out, train), *flags])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("choices")
    write_pretrain_dir(place / "bin")
    for name, content in (("train", rows(1, 250)), ("dev", rows(2, 60))):
        write_json_lines(place / f"{name}.jsonl", content)
    hidden = [{**row, "label": ""} for row in rows(3, 9)]
    test = write_json_lines(place / "test.jsonl", hidden)
    flags = ["--valid", place / "dev.jsonl", "--test", test]
    code, printed = prepare(place, place / "task", place / "train.jsonl", *flags)
    assert code == 0, printed
    return place


Q = {"question": "who", "id": 1}
LAYOUTS = {
    "swag": {"sent1": "the cat", "sent2": "who", "ending0": "a", "ending1": "b", "label": 1},
    "copa": {"premise": "the cat", "question": "who", "choice1": "a", "choice2": "b", "label": 1},
    "race": {"article": "the cat", "question": "who", "options": ["a", "b"], "answer": "B"},
    "arc": {**Q, "choices": {"text": ["a", "b"], "label": ["3", "4"]}, "answerKey": "4"},
    "siqa": {"context": "the cat", "question": "who", "answerA": "a", "answerB": "b", "label": "2"},
    "mine": {"x": "who", "first": "a", "second": "b", "y": "1"},
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_public_layouts(name, place, tmp_path):
    row = LAYOUTS[name]
    label = next(key for key in row if key in ("label", "answer", "answerKey", "y"))
    first = {"label": 0, "answer": "A", "answerKey": "3"}.get(label, "0")
    first = "1" if name == "siqa" else first
    train = write_json_lines(tmp_path / "a.jsonl", [row, {**row, label: first}] * 3)
    flags = ["--valid", train, "--test", train]
    if name == "mine":
        flags += ["--text", "x", "--candidates", "first,second", "--label", "y"]
    code, printed = prepare(place, tmp_path / "out", train, *flags)
    assert code == 0, printed
    task, symbols = Task.load(str(tmp_path / "out")), [5, 4] * 3
    assert task.texts == 3 and len(task.labels) == 2 and task.kind == "choice"
    for split in ("train", "test"):
        labels = read_sentences(str(tmp_path / "out" / "label" / split))
        assert [x[0] for x in labels] == symbols
    sizes = [len(x[0]) for x in (read_sentences(str(tmp_path / "out" / f"input{n}" / "train"))
             for n in range(3))]  # fmt: skip
    assert sizes[0] > sizes[1] if "the cat" in row.values() else sizes[0] > 1


@pytest.mark.parametrize(
    "bad, message",
    [
        ({"endings": ["a", "b"]}, "line 1 has 2 candidates, not 3 like most rows of train"),
        ({"endings": ["a"]}, "line 1 has 1 candidates, not 3"),
        ({"endings": "a"}, "line 1 has \"a\" in column 'endings', not a list of texts"),
        ({"endings": ["a", " ", "b"]}, "line 1 has an empty candidate"),
        ({"ctx": " "}, "line 1 has an empty question"),
        ({"label": 3}, "line 1 has the label '3', not one of '0', '1', '2'"),
        ({"label": 1.0}, "line 1 has the label '1.0', not one of '0', '1', '2'"),
        ({"label": None}, "line 1 has null in column 'label', which is neither text nor number"),
        ({"ctx": ["a"]}, "line 1 has a list in column 'ctx', not a text"),
    ],
)
def test_refused_or_left_out(bad, message, place, tmp_path):
    """The majority of rows, not the first row, decides the number of candidates and their names."""
    content = rows(1, 20)
    content[0] = {**content[0], **bad}
    train = write_json_lines(tmp_path / "a.jsonl", content)
    assert message in refused("prepare-task", *words(place, tmp_path / "out", train))
    assert not (tmp_path / "out").exists()
    code, printed = prepare(place, tmp_path / "out", train, "--skip-bad-rows")
    splits = read_json(tmp_path / "out" / "report.json")["splits"]
    assert code == 0 and (splits["train"]["rows_read"], splits["valid"]["rows"]) == (18, 2)


def test_labels_that_may_count_from_0_or_from_1(place, tmp_path):
    for labels in ("12", ["1.0", "0.0"]):
        content = [{**row, "label": labels[n % 2]} for n, row in enumerate(rows(1, 20))]
        train = write_json_lines(tmp_path / "a.jsonl", content)
        line = refused("prepare-task", *words(place, tmp_path / "out", train))
        assert "nor numbers that clearly begin at 0 or at 1; write A, B" in line


def test_loss_and_accuracy_are_of_one_candidate_after_the_other(place):
    flags = [
        *training.MODEL, *training.OPTIMIZATION, *training.DECAY, "--task", "multiple_choice",
        "--criterion", "multiple_choice", "--num-classes", 3, "--max-positions", 20,
    ]  # fmt: skip
    task, model, criterion = training.build(place / "task", *flags)
    for parameter in model.eval().parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    head, loss, right, logs = criterion.ranking_head_name, 0.0, 0, []
    with torch.no_grad():
        for sample in training.batches(task, "valid", 7):
            logs.append(criterion.eval()(model, sample)[2])
            for row, target in enumerate(sample["target"].view(-1).tolist()):
                scores = []
                for n in (1, 2, 3):
                    inputs = sample[f"net_input{n}"]
                    tokens = inputs["src_tokens"][row : row + 1, : inputs["src_lengths"][row]]
                    assert tokens.size(1) <= 20 and tokens[0, 0] == 0
                    scores.append(model(tokens, classification_head_name=head)[0].item())
                shares = torch.tensor(scores).double().softmax(0)
                loss -= shares[target].log().item()
                right += shares.argmax() == target
    assert sum(log["loss"] for log in logs).item() == pytest.approx(loss, rel=1e-5)
    assert sum(log["ncorrect"] for log in logs) == right


def test_from_json_lines_to_the_exported_folder(place, tmp_path):
    options = {"encoder_embed_dim": 32, "encoder_ffn_embed_dim": 40, "encoder_attention_heads": 4}
    checkpoint = write_model(place / "pre", place / "bin", max_positions=40, **options)
    flags = ["--lrs", 5e-3, "--seeds", 1, "--epochs", 5, "--dropout", 0, "--no-pretraining"]
    data = ["--data", place / "task", "--checkpoint", checkpoint, "--output-dir", tmp_path / "runs"]
    with trainings_here():
        printed = run_here("tupe-finetune", *data, *flags, "--cpu").stdout
    best = tmp_path / "runs" / "task" / "best"
    scores = read_json(str(tmp_path / "runs" / "task" / "results.json"))
    assert scores["score"] > 0.8 > 0.5 > scores["baseline_score"], printed
    assert "new.jsonl --output-file predicted.jsonl" in printed  # .csv holds no lists
    words = [best, place / "dev.jsonl", "--cpu", "--all-probabilities"]
    run_here("tupe-predict", *words, "--output-file", tmp_path / "out.jsonl")
    found = read_json_lines(tmp_path / "out.jsonl")
    hits = [row["label"] == row["predicted_label"] for row in found]
    assert sum(hits) / len(hits) == pytest.approx(scores["score"], abs=1e-9)
    printed = run_here("tupe-predict", *words[:3], "--report", tmp_path / "report").stdout
    assert f"accuracy {scores['score']:.4f}, 95% interval" in printed
    other = write_json_lines(tmp_path / "other.jsonl", [{"ctx": "who", "options": ["a", "b", "c"]}])
    printed = run_here("tupe-predict", best, other, "--cpu", check=False).stdout
    assert "other.jsonl has no column 'endings', which the training data has" in printed
    hub = hub_of(best)
    pairs = [(row["ctx"], row["endings"]) for row in found[:5]]
    ours = hub.predict_texts(pairs, all_probabilities=True)
    assert [one["all_probabilities"] for one in ours] == [
        row["predicted_all_probabilities"] for row in found[:5]
    ]
    with pytest.raises(ValueError, match="takes 3 candidates, not 1"):
        hub.predict_texts([("who likes", "cat")])  # not three candidates
    out = tmp_path / "exported"
    printed = run_here("tupe-export", best, "--output-dir", out).stdout
    assert "AutoModelForMultipleChoice: the same within" in printed
    model = AutoModelForMultipleChoice.from_pretrained(out, trust_remote_code=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(out, trust_remote_code=True)
    for row in found[:9]:
        batch = tokenizer([row["ctx"]] * 3, row["endings"], padding=True, return_tensors="pt")
        label = torch.tensor([int(row["label"])])
        result = model(**{name: x[None] for name, x in batch.items()}, labels=label)
        shares = result.logits[0].softmax(0)
        expected = torch.tensor([*row["predicted_all_probabilities"].values()])
        torch.testing.assert_close(shares, expected, rtol=0, atol=2e-5)  # six digits, float32
        assert result.loss.item() == pytest.approx(-shares[label].log().item(), abs=1e-5)
    back = tmp_path / "back"
    convert(["--checkpoint", out], back)
    words = [back / "model.pt", *words[1:], "--data", place / "task"]
    run_here("tupe-predict", *words, "--output-file", tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "out.jsonl").read_text()
