"""Training and prediction give the model the same tokens for the same row."""

from collections import Counter

import pytest

from helpers import training
from helpers.glue_files import sentence
from helpers.rows import write_json_lines
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.prepare import prepare_task

LAST = "checkpoint_last.pt"


def rows_of(kind):
    """Rows that fit into 20 tokens and rows that do not."""
    texts = [" ".join(map(sentence, range(n, n + 1 + n % 4))) for n in range(24)]
    if kind == "tagging":
        return [{"words": x.split(), "tags": [*map(str, map(len, x.split()))]} for x in texts]
    second = [{"text2": "No." if n % 4 == 0 else texts[-n]} for n in range(24)]
    return [
        {"text": text, **(more if kind == "pairs" else {}), "label": "ab"[n % 2]}
        for n, (text, more) in enumerate(zip(texts, second))
    ]


@pytest.mark.parametrize("kind", ["texts", "pairs", "tagging"])
def test_they_are_the_same(kind, vocabulary, tmp_path):
    rows, name = rows_of(kind), "tagging" if kind == "tagging" else "classification"
    file, data = write_json_lines(tmp_path / "a.jsonl", rows), tmp_path / "data"
    columns = {key: key for key in rows[0] if key.startswith("text")}
    options = {"kind": name, "vocabulary": vocabulary, "valid": file, "workers": 1}
    prepare_task(file, data, **options, **columns)
    task = "token_tagging" if kind == "tagging" else "glue_sentence_prediction"
    flags = [*training.MODEL, *training.OPTIMIZATION, *training.DECAY, "--rel-pos", "--task", task]
    flags += ["--criterion", task, "--max-positions", 20, "--metrics", "accuracy"]
    flags += ["--batch-size", 8, "--no-epoch-checkpoints", "--max-update", 1]
    training.train(data, tmp_path / "run", *flags, "--disable-validation")
    dataset = training.build(data, *flags)[0].load_dataset("valid")
    trained = Counter()
    for number in range(len(dataset)):
        batch = dataset.collater([dataset[number]])
        trained[tuple(batch["net_input"]["src_tokens"][0].tolist())] += 1
    hub = TupeRobertaModel.from_pretrained(str(tmp_path / "run"), LAST, str(data)).eval()
    seen, embedding = Counter(), hub.model.encoder.sentence_encoder.embed_tokens
    embedding.register_forward_pre_hook(
        lambda _, tokens: seen.update(tuple(x[x != 1].tolist()) for x in tokens[0])
    )
    texts = [row["words"] if kind == "tagging" else [row[x] for x in columns] for row in rows]
    found = hub.predict_texts(texts if kind != "texts" else [text for (text,) in texts])
    assert seen == trained and max(map(len, seen)) == 20 > min(map(len, seen))
    assert (seen.total() > len(rows)) == (kind == "tagging")
    if kind == "tagging":
        assert [len(row["tags"]) for row in found] == [len(row["words"]) for row in rows]
