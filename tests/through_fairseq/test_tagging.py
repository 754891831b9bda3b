"""fairseq-train on tags of words and on labels of texts, and predictions of what it leaves."""

import logging

import numpy as np
import pytest
import torch

from helpers.glue_training import MODEL, RATIO, records
from helpers.running import run
from helpers.task_data import NAMES, names, topics, write_names, write_topics
from helpers.training import two_workers
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.inference.predict import predict
from tupe_fairseq.labelled.metrics import task_metrics
from tupe_fairseq.plugin.model.tagging_head import TokenTaggingHead

HEAD = "token_tagging_head"
TAGGING = ["--task", "token_tagging", "--criterion", "token_tagging",
           "--metrics", "entity_f1,accuracy", "--best-checkpoint-metric", "entity_f1"]  # fmt: skip
LABELS = ["--task", "glue_sentence_prediction", "--criterion", "glue_sentence_prediction",
          "--multilabel", "--num-classes", 3, "--metrics", "micro_f1,macro_f1",
          "--class-weights", "1,1.5,2", "--best-checkpoint-metric", "micro_f1"]  # fmt: skip


def train(flags, data, save_dir, *further, **kwargs):
    return run(
        "fairseq-train", data, *MODEL, *flags, "--max-positions", 32, "--batch-size", 8,
        "--required-batch-size-multiple", 1, "--optimizer", "adam", "--lr", 2e-2, *RATIO, 0.1,
        "--max-epoch", 4, "--no-epoch-checkpoints", "--maximize-best-checkpoint-metric",
        "--num-workers", 0, "--data-buffer-size", 0, "--cpu", "--seed", 3, "--unpad",
        "--log-format", "json", "--log-interval", 1, "--save-dir", save_dir, *further, **kwargs,
    )  # fmt: skip


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    """Data, folder of the run and its process; some sentences are longer than the model."""
    data = write_names(tmp_path_factory.mktemp("names"), names(longest=30))
    folder = tmp_path_factory.mktemp("run")
    return data, folder, train(TAGGING, data, folder)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    data = write_topics(tmp_path_factory.mktemp("topics"), topics())
    folder = tmp_path_factory.mktemp("run")
    return data, folder, train(LABELS, data, folder, "--max-epoch", 12)


def as_tags(rows):
    return [[NAMES.labels[tag] for tag in row.tolist()] for row in rows]


def test_tags_are_learned_and_scored_as_predicted(tagged):
    data, folder, process = tagged
    assert "of 53 sentences are longer than --max-positions 32 and are split" in process.stdout
    printed = [float(r["valid_entity_f1"]) for r in records(process, "valid_entity_f1")]
    found = predict(folder / "checkpoint_best.pt", data, "valid")
    assert [row.tolist() for row in found.targets] == [
        tags for _, tags in names(longest=30)["valid"]
    ]
    scores = task_metrics(["entity_f1", "accuracy"], *map(as_tags, found))
    assert 100 * scores["entity_f1"] == pytest.approx(max(printed), abs=1e-3)
    state = torch.load(folder / "checkpoint_best.pt", map_location="cpu")["extra_state"]
    assert state["val_loss"] == pytest.approx(max(printed), abs=1e-3)
    # O for every word
    frequent = np.mean([tag == 0 for _, tags in names(longest=30)["valid"] for tag in tags])
    assert scores["accuracy"] > frequent + 0.1


@pytest.mark.parametrize("kind", ["tagged", "labelled"])
def test_the_batch_size_changes_no_prediction(kind, request):
    data, folder, _ = request.getfixturevalue(kind)
    every = [
        predict(folder / "checkpoint_last.pt", data, "test", batch_size=size) for size in (1, 32)
    ]
    for found in every:
        assert found.targets is None and len(found.values) == 9
        assert all((a == b).all() for a, b in zip(found.values, every[0].values))
    if kind == "labelled":
        assert found.values.shape == (9, 3) and found.values.dtype == bool
    else:
        counts = [len(words) for words, _ in names(longest=30)["test"]]
        assert [len(row) for row in found.values] == counts
        assert all(row.dtype == np.int64 for row in found.values)


def test_labels_are_scored_as_predicted(labelled):
    data, folder, process = labelled
    printed = [float(r["valid_micro_f1"]) for r in records(process, "valid_micro_f1")]
    found = predict(folder / "checkpoint_best.pt", data, "valid")
    expected = [[label in labels for label in range(3)] for _, labels in topics()["valid"]]
    assert found.targets.tolist() == expected
    scores = task_metrics(["micro_f1"], *found)
    assert 100 * scores["micro_f1"] == pytest.approx(max(printed), abs=1e-3)
    assert scores["micro_f1"] > 0


def test_two_workers_score_whole_sentences_once(tagged, tmp_path):
    data, _, _ = tagged

    def worker(*distributed):
        return train(TAGGING, data, tmp_path, "--max-epoch", 1, "--find-unused-parameters",
                     *distributed)  # fmt: skip

    first, _ = two_workers(worker)
    found = predict(tmp_path / "checkpoint_last.pt", data, "valid")
    scores = task_metrics(["entity_f1", "accuracy"], *map(as_tags, found))
    (record,) = records(first, "valid_accuracy")
    for name, value in scores.items():
        assert float(record[f"valid_{name}"]) == pytest.approx(100 * value, abs=1e-3)


def test_the_hub_has_the_head(tagged):
    data, folder, _ = tagged
    hub = TupeRobertaModel.from_pretrained(str(folder), "checkpoint_last.pt", str(data)).eval()
    head = hub.model.classification_heads[HEAD]
    assert isinstance(head, TokenTaggingHead) and list(hub.model.classification_heads) == [HEAD]
    saved = torch.load(folder / "checkpoint_last.pt", map_location="cpu")["model"]
    assert head.out_proj.weight.equal(saved[f"classification_heads.{HEAD}.out_proj.weight"])
    sample = hub.task.load_dataset("valid").collater([hub.task.dataset("valid")[0]])
    tokens, starts = (sample["net_input"][key] for key in ("src_tokens", "word_starts"))
    logits = hub.predict(HEAD, tokens, return_logits=True)
    assert logits.shape == (*tokens.shape, 5)
    with torch.no_grad():
        of_words, _ = hub.model(tokens, classification_head_name=HEAD, word_starts=starts)
    torch.testing.assert_close(of_words, logits[starts], rtol=0, atol=1e-5)


def loads(folder, data, caplog, **options):
    with caplog.at_level(logging.WARNING):
        return TupeRobertaModel.from_pretrained(
            str(folder), "checkpoint_last.pt", str(data), **options
        ).model


def test_other_tasks_take_or_leave_the_head(tagged, labelled, caplog):
    """It stays if it may and fits; a head of another kind by its name does not."""
    model = loads(tagged[1], tagged[0] / "input0", caplog, task="masked_lm", tokens_per_sample=32)
    assert list(model.classification_heads) == [HEAD]
    model = loads(tagged[1], tagged[0] / "input0", caplog, task="masked_lm", tokens_per_sample=32,
                  load_checkpoint_heads=False)  # fmt: skip
    assert not len(model.classification_heads)
    assert f"left out the checkpoint's head {HEAD}: the model has none of this name" in caplog.text
    name = "sentence_classification_head"
    model = loads(labelled[1], tagged[0], caplog, task="token_tagging", num_classes=5,
                  classification_head_name=name)  # fmt: skip
    assert isinstance(model.classification_heads[name], TokenTaggingHead)
    assert f"head {name}: the model has one of another kind or size" in caplog.text


def test_fine_tuning_goes_on_from_it(tagged, labelled, tmp_path):
    """The encoder is taken, and of the same task the head, too."""
    data, folder, _ = tagged
    start = folder / "checkpoint_last.pt"
    flags = ["--finetune-from-model", start, "--max-epoch", 1, "--lr", 1e-9]
    process = train(TAGGING, data, tmp_path / "same", *flags)
    assert "newly initialized: none" in process.stdout
    process = train(LABELS, labelled[0], tmp_path / "other", *flags)
    assert "newly initialized: classification_heads.sentence_classification_head" in process.stdout
    encoder = "encoder.sentence_encoder.layers.0.fc1.weight"
    before, same, other = (
        torch.load(path, map_location="cpu")["model"]
        for path in (start, tmp_path / "same" / start.name, tmp_path / "other" / start.name)
    )
    key = f"classification_heads.{HEAD}.out_proj.weight"
    assert key not in other
    for found, name in ((same, encoder), (other, encoder), (same, key)):
        torch.testing.assert_close(found[name], before[name], rtol=0, atol=1e-6)
