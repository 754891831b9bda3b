"""Questions about a text: from SQuAD's JSON to windows, loss, metrics and answers."""

import collections
import itertools
import json
import random
import re
import string
import unicodedata

import numpy as np
import pytest
import torch
import transformers
from fairseq.logging import metrics as logged

from helpers import training
from helpers.models import hub_of, write_model
from helpers.rows import read_json_lines, write_json_lines
from helpers.running import call_program, refused, run_here, trainings_here
from helpers.vocabularies import convert, write_gpt2
from tupe_fairseq.checkpoint.checkpoint import symbols_of
from tupe_fairseq.data.dictionary import write_dictionary
from tupe_fairseq.data.metrics import task_metrics
from tupe_fairseq.data.subwords import SentencePiece, learn_sentencepiece
from tupe_fairseq.data.tokenizer import Tokenizer
from tupe_fairseq.export.tokenizer import build_tokenizer
from tupe_fairseq.files import read_json

MOST = 24
KINDS = {
    "number": ["one", "two", "three", "four", "f\u00fcnf", "six or so"],
    "colour": ["red", "green", "\U0001f535", "white", "black", "pi\u0301nk"],
}
WORDS = "bag lid mud pot fog jar kit log nut rug sun top van web yak zip".split()
#: texts that cleaning, or SentencePiece's rules, change
ODD = [
    "  two  spaces, a\ttab\r\nand lines \u3000 ", "caf\u00e9 cafe\u0301 n\u00a0b",
    "in\u00advis\u200bible \ufeffmark\x00", "\ufb01ne \u2460 and so on\u2026",
    "\U0001f600\U0001f469\u200d\U0001f467 x",
    "\u6771\u4eac\u306f\u65e5\u672c\u3002", "<mask> </s> a<MASK>", "\u1112\u1161\u11ab \u0130",
]  # fmt: skip


def squad(seed, number, longest):
    """SQuAD's layout: each text has at most one number and one colour among other words."""
    draw, paragraphs = random.Random(seed), []
    for place in range(number):
        words = draw.choices(WORDS, k=draw.randint(3, longest))
        if place == 0:
            words = draw.choices(WORDS, k=100)
        for of_kind in KINDS.values():
            if draw.random() < 0.75:
                words.insert(draw.randrange(len(words) + 1), draw.choice(of_kind))
        context, starts = "", []
        for word in words:
            starts.append(len(context))
            context += word + draw.choice([" ", " ", "  ", "\n", ", ", ".\t", " \u200b"])
        questions = []
        for kind, of_kind in KINDS.items():
            found = zip(words, starts)
            answers = [{"text": w, "answer_start": n} for w, n in found if w in of_kind]
            questions.append({
                "id": f"{seed}-{place}-{kind}", "question": f"Which {kind}?", "answers": answers,
                "is_impossible": not answers,
            })  # fmt: skip
        paragraphs.append({"context": context, "qas": questions})
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}


def write_vocabulary(folder):
    folder.mkdir()
    lines = [" ".join([*WORDS, *sum(KINDS.values(), []), "Which number colour?", *".,!"]), *ODD]
    model = learn_sentencepiece(lines * 5, 150, "bpe", 1.0, False)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    words = SentencePiece(str(folder / "sentencepiece.bpe.model")).words()
    write_dictionary(str(folder / "dict.txt"), words)
    (folder / "vocabulary.json").write_text(json.dumps({"kind": "sentencepiece", "clean": True}))
    return folder


def prepare(place, out, *flags):
    words = ["--kind", "qa", "--pretrain-dir", place / "bin", "--output-dir", out, *flags]
    return call_program("prepare-task", words)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """train.json, dev.json, a vocabulary, and the folder of the task."""
    place = tmp_path_factory.mktemp("questions")
    write_vocabulary(place / "bin")
    for name, content in (("train", squad(1, 130, 12)), ("dev", squad(2, 40, 12))):
        (place / f"{name}.json").write_text(json.dumps(content))
    files = ["--train", place / "train.json", "--valid", place / "dev.json"]
    code, printed = prepare(place, place / "task", *files, "--stride", 5)
    assert code == 0, printed
    return place


def questions(content):
    """Rows of the flat layout."""
    return [
        {"context": paragraph["context"], **question}
        for article in content["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


def build(place, *flags):
    flags = [
        *training.MODEL, *training.OPTIMIZATION, *training.DECAY, "--rel-pos", "--task",
        "question_answering", "--criterion", "question_answering", "--max-positions", MOST,
        "--stride", 5, "--may-lack", *flags,
    ]  # fmt: skip
    task, model, criterion = training.build(place / "task", *flags)
    torch.manual_seed(2)
    for parameter in model.eval().parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return task, model, criterion


def test_windows_overlap_and_point_at_the_answers(place):
    rows = questions(read_json(place / "train.json"))
    tokenizer, (task, _, _) = Tokenizer.load(str(place / "task")), build(place)
    hits, ends = collections.Counter(), collections.defaultdict(list)
    for sample in training.batches(task, "train", 7):
        tokens = sample["net_input"]["src_tokens"]
        assert tokens.size(1) <= MOST and (tokens[:, 0] == 0).all()
        for number, row in enumerate(sample["row"].tolist()):
            text, start = sample["text"][number].item(), sample["start"][number].item()
            first, last = sample["target"][number].tolist()
            stop = start + int(sample["net_input"]["src_lengths"][number]) - text - 1
            ends[row].append((start, stop))
            question = tokens[number, 1 : text - 2].tolist()
            assert question == tokenizer.encode(rows[row]["question"])
            if first:
                answer = rows[row]["answers"][0]["text"]
                assert text <= first <= last < text + stop - start
                ids = tokens[number, first : last + 1].tolist()
                assert tokenizer.decode(ids) == tokenizer.normalize(answer)
                hits[row] += 1
    assert set(hits) == {number for number, row in enumerate(rows) if row["answers"]}
    assert len(hits) < hits.total()
    for row, of_row in ends.items():
        of_row.sort()
        assert of_row[0][0] == 0 and of_row[-1][1] == len(tokenizer.encode(rows[row]["context"]))
        assert all(stop - start == 5 for (_, stop), (start, _) in itertools.pairwise(of_row))


def plain_squad(target, prediction):
    """Exact match and F1 of one right answer, by SQuAD's description."""
    sides = []
    for text in (target, prediction):
        text = "".join(c for c in text.lower() if c not in string.punctuation)
        sides.append([w for w in re.split(r"\s+", text) if w not in ("a", "an", "the", "")])
    shared, rest = 0, list(sides[1])
    for word in sides[0]:
        if word in rest:
            rest.remove(word)
            shared += 1
    if not sides[0] or not sides[1]:
        return sides[0] == sides[1], float(sides[0] == sides[1])
    precision, recall = shared / len(sides[1]), shared / len(sides[0])
    f1 = 2 * precision * recall / (precision + recall) if shared else 0.0
    return sides[0] == sides[1], f1


def test_metrics_are_squads():
    draw = random.Random(1)
    parts = "the A an cat Cat dog, U.S. it's -- \u00e9t\u00e9 a-b theme".split()
    rows = []
    for _ in range(300):
        texts = [" ".join(draw.choices(parts, k=draw.randint(0, 5))) for _ in range(4)]
        rows.append((texts[0], tuple(texts[1 : draw.randint(1, 4)])))
    expected = np.zeros(2)
    for prediction, targets in rows:
        targets = [x for x in targets if plain_squad(x, "")[1] == 0] or [""]
        expected += np.max([plain_squad(x, prediction) for x in targets], axis=0)
    found = task_metrics(["exact_match", "answer_f1"], *zip(*rows))
    assert list(found.values()) == pytest.approx((expected / len(rows)).tolist(), abs=1e-12)
    assert 0.05 < found["exact_match"] < found["answer_f1"] < 1


@pytest.mark.parametrize("size", [1, 6])
def test_loss_and_metrics_are_of_whole_texts(size, place):
    task, model, criterion = build(place)
    criterion.eval()
    head = criterion.classification_head_name
    total, windows, found = 0.0, 0, collections.defaultdict(list)
    with torch.no_grad(), logged.aggregate(new_root=True) as aggregate:
        for sample in training.batches(task, "valid", size):
            loss, _, log = criterion(model, sample)
            criterion.reduce_metrics([log])
            total += loss.item()
            for n, row in enumerate(sample["row"].tolist()):  # each window alone
                length, text = sample["net_input"]["src_lengths"][n], sample["text"][n].item()
                tokens = sample["net_input"]["src_tokens"][n : n + 1, :length]
                logits = model(tokens, classification_head_name=head)[0][0].double()
                places = [0, *range(text, length - 1)]
                shares = logits[places].softmax(0)
                first, last = (places.index(x) for x in sample["target"][n].tolist())
                windows -= (shares[first, 0].log() + shares[last, 1].log()).item() / 2
                shift, about = sample["start"][n] - 1, sample["answers"][n]
                spans = [
                    (shares[a, 0] * shares[b, 1], a + shift, b - a, about)
                    for a in range(1, len(places)) for b in range(a, min(a + 30, len(places)))
                ]  # fmt: skip
                found[row].append((max(spans, key=lambda x: x[0]), shares[0].prod().item()))
    assert total == pytest.approx(windows, rel=1e-4)
    rows = []
    for row in sorted(found):
        (score, first, more, about), _ = max(found[row], key=lambda x: x[0][0])
        begin, end = about["spans"][first][0], about["spans"][first + more][1]
        answer = about["context"][begin:end]
        rows.append(("" if min(x for _, x in found[row]) > score else answer, about["answers"]))
    expected = [max(plain_squad(x, p)[1] for x in t or [""]) for p, t in rows]
    assert 0 < sum(p == "" for p, _ in rows) < len(rows)
    assert aggregate.get_smoothed_values()["answer_f1"] == pytest.approx(100 * np.mean(expected))


@pytest.mark.parametrize("kind", ["sentencepiece", "gpt2"])
def test_tokens_are_where_they_are_in_the_text(kind, place, tmp_path):
    folder = place / "bin"
    if kind == "gpt2":
        folder = tmp_path / "converted"
        convert(write_gpt2(tmp_path / "gpt2"), folder)
    tokenizer = Tokenizer.load(str(folder))
    for text in [*ODD, " ".join(ODD), ""]:
        ids, spans = tokenizer.encode_with_spans(text)
        assert ids == tokenizer.encode(text) and len(spans) == len(ids)
        assert all(0 <= a <= b <= len(text) for a, b in spans) and spans == sorted(spans)
        covered = {n for span in spans for n in range(*span)}
        left_out = "".join(c for n, c in enumerate(text) if n not in covered)
        assert not tokenizer.normalize(left_out).strip()
        assert not any(text[a:b] != text[a:b].strip() for a, b in spans)


def test_the_exported_tokenizer_points_at_the_same_characters(place, tmp_path):
    gpt2 = tmp_path / "converted"
    convert(write_gpt2(tmp_path / "gpt2"), gpt2)
    words = [text for text in ODD if "<" not in text] + ["a the cat, the\u00e9 x y", "  a  b "]
    for folder in (place / "bin", gpt2):
        own = Tokenizer.load(str(folder))
        symbols = symbols_of((folder / "dict.txt").read_text().splitlines())
        fast, _ = build_tokenizer(own.record, own.paths, symbols, 64)
        for text in words:
            if unicodedata.is_normalized("NFC", text):  # else its spans end before accents
                found = fast(text, add_special_tokens=False, return_offsets_mapping=True)
                pairs = zip(found["offset_mapping"], own.encode_with_spans(text)[1])
                # spans of only spaces differ
                assert all(tuple(a) == b for a, b in pairs if text[slice(*b)]), text


@pytest.fixture(scope="module")
def runs(place):
    """The output folder of tupe-finetune, without pre-training, and its table."""
    options = {"encoder_layers": 2, "encoder_embed_dim": 48, "encoder_attention_heads": 4}
    checkpoint = write_model(
        place / "pre", place / "bin", **options, max_positions=MOST, rel_pos=True
    )
    flags = "--lrs 5e-3 --seeds 1 --epochs 7 --dropout 0 --no-pretraining --cpu".split()
    data = ["--data", place / "task", "--checkpoint", checkpoint, "--output-dir", place / "runs"]
    with trainings_here():
        return run_here("tupe-finetune", *data, *flags).stdout


def test_from_json_to_answers_and_the_exported_folder(place, runs, tmp_path):
    """The model learns what is asked for, in texts of any length, and when there is no answer."""
    best, rows = place / "runs" / "task" / "best", questions(squad(2, 40, 12))
    scores = read_json(str(place / "runs" / "task" / "results.json"))
    assert scores["score"] > 0.8 > 0.4 > scores["baseline_score"], runs
    words = [best, place / "dev.json", "--cpu", "--output-file", tmp_path / "out.jsonl"]
    printed = run_here("tupe-predict", *words).stdout
    answers = read_json_lines(tmp_path / "out.jsonl")
    f1 = [max(plain_squad(x["text"], a["answer"])[1] for x in row["answers"] or [{"text": ""}])
          for row, a in zip(rows, answers)]  # fmt: skip
    assert f"answer_f1 {np.mean(f1):.4f}, 95% interval" in printed
    assert scores["score"] == pytest.approx(np.mean(f1), abs=1e-12)
    assert sum(not a["answer"] for a in answers) > 5
    for row, one in zip(rows, answers):
        assert one["id"] == row["id"]
        assert one["answer"] == row["context"][one["start"] : one["end"]].strip()
    some = write_json_lines(tmp_path / "some.jsonl", [ROW, {**ROW, "answers": None}])
    printed = run_here("tupe-predict", best, some, "--cpu").stdout
    assert "1 of 2 questions lack answers, so nothing is measured" in printed
    words = [best, some, "--cpu", "--label-separator", ";"]
    assert "--label-separator: the task" in run_here("tupe-predict", *words, check=False).stdout
    words = ["--data", place / "task", "--checkpoint", best, "--output-dir", tmp_path / "mean"]
    assert "--pooling mean is not for qa tasks" in refused("finetune", *words, "--pooling", "mean")
    lines = (best / "predictions-valid.tsv").read_text("utf-8").splitlines()[1:]
    assert [line.split("\t")[0] for line in lines] == [row["id"] for row in rows]

    model = hub_of(best)
    pairs = [(row["question"], row["context"]) for row in rows]
    keys = ("answer", "start", "end", "score")
    assert model.predict_texts(pairs[:9]) == [{k: one[k] for k in keys} for one in answers[:9]]
    long = model.predict_texts([("Which colour? " * 30, "bag " * 200 + "red"), ("?", "x")])
    assert [set(one) for one in long] == [set(keys)] * 2

    out = tmp_path / "exported"
    printed = run_here("tupe-export", best, "--output-dir", out).stdout
    assert "AutoModelForQuestionAnswering: the same within" in printed
    pipe = transformers.pipeline("question-answering", str(out), trust_remote_code=True)
    options = {"max_seq_len": MOST, "doc_stride": 5, "max_answer_len": 30}
    for row, one in zip(rows, answers):
        pair = {"question": row["question"], "context": row["context"]}
        if unicodedata.is_normalized("NFC", row["context"]):
            found = pipe(pair, **options, handle_impossible_answer=True, align_to_words=False)
            assert {k: found[k] for k in keys[:3]} == {k: one[k] for k in keys[:3]}, (row, found)
            if len(pipe.tokenizer(*pair.values())["input_ids"]) <= MOST:  # it adds windows' scores
                assert found["score"] == pytest.approx(one["score"], abs=1e-4)
    back = convert(["--checkpoint", out, "--dict", place / "bin" / "dict.txt"], tmp_path / "back")
    assert "question_answering_head" in back
    words = [tmp_path / "back" / "model.pt", place / "dev.json", "--data", place / "task", "--cpu"]
    again = run_here("tupe-predict", *words, "--output-file", tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "out.jsonl").read_text(), again


ROW = {"id": 7, "question": "Which?", "context": "a red bag", "answers": []}
SQUAD = {"data": [{"paragraphs": [{"context": "a red bag", "qas": [ROW]}]}]}
AT_2 = {"text": ["bag"], "answer_start": [2]}


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.jsonl", [ROW, {**ROW, "answers": AT_2}],
         "line 2 has the answer 'bag', but its context has 'red' at 2"),
        ("a.jsonl", [ROW, {**ROW, "answers": {"text": [""], "answer_start": [0]}}],
         "line 2 has the empty answer ''; for no answer write "),
        ("a.jsonl", [{**ROW, "question": " \u200b"}], "as question, not a text"),
        ("a.jsonl", [{"question": "a"}], "the columns 'question' instead of 'question', 'context'"),
        ("a.jsonl", [{**ROW, "answers": {"text": ["red"]}}],
         'has the answers {"text": ["red"]}, not texts with an answer_start for each'),
        ("a.jsonl", [{**ROW, "answers": None}], "id 7 has no answers"),
        ("a.jsonl", [ROW, ROW], "no question of"),
        ("a.json", [ROW], "does not have SQuAD's layout"),
        ("a.json", '["caf\udce9"]', "a.json is not UTF-8; convert the file first: iconv -f"),
        ("a.json", {"data": [*SQUAD["data"], {"paragraphs": [{"qas": []}]}]}, "near question 1"),
        ("a.json", {"data": [{**ROW, "answers": [{"text": "red", "answer_start": 3}]}]},
         "row 1 has the answer 'red', but its context has 'ed ' at 3"),
        ("a.csv", "question,context\n", "questions are in SQuAD's .json, in .jsonl or .parquet"),
    ],
)  # fmt: skip
def test_refused(name, content, message, place, tmp_path):
    lines = "".join(f"{json.dumps(row)}\n" for row in content) if name == "a.jsonl" else None
    text = content if isinstance(content, str) else lines or json.dumps(content)
    (tmp_path / name).write_text(text, errors="surrogateescape")
    code, printed = prepare(place, tmp_path / "out", "--train", tmp_path / name)
    assert code == 2 and printed.count("error: ") == 1 and not (tmp_path / "out").exists()
    assert message in printed.splitlines()[-1]


def test_flat_rows_and_bad_ones_left_out(place, tmp_path):
    rows = questions(read_json(place / "train.json"))[:60]
    for row in rows:
        texts, starts = ([x[key] for x in row["answers"]] for key in ("text", "answer_start"))
        row.update(answers={"text": texts, "answer_start": starts}, is_impossible=None)
    bad = {**rows[0], "question": ""}
    train = write_json_lines(tmp_path / "a.jsonl", [bad, *rows])
    flags = ["--train", train, "--valid-share", 0.2, "--skip-bad-rows"]
    code, printed = prepare(place, tmp_path / "out", *flags)
    assert code == 0, printed
    report = read_json(str(tmp_path / "out" / "report.json"))
    assert report["splits"]["train"]["dropped"] == {"no question": 1}
    held_out = {x["context"] for x in read_json_lines(tmp_path / "out" / "valid.answers")}
    ids = (tmp_path / "out" / "train.index").read_text().split()
    kept = {row["context"] for row in rows if row["id"] in ids}
    assert len(ids) < 60 and not held_out & kept, "a text is on one side"
