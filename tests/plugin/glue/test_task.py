"""The task glue_sentence_prediction: what it reads, and what it refuses."""

import logging
import shutil
from argparse import Namespace

import numpy as np
import pytest
from fairseq import tasks
from omegaconf import open_dict
from tupe_fairseq.tasks.pair_lengths import pair_lengths

from helpers.glue_data import EOS, FIRST, write_bin
from helpers.glue_training import config, make, rows_of

BOS = 0


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    return {name: make(name, folder / name) for name in ("CoLA", "MRPC", "STS-B", "MNLI")}


@pytest.fixture
def copy(folders, tmp_path):
    """A function that copies a data folder, to be spoilt."""
    return lambda name: shutil.copytree(folders[name], tmp_path / name)


def setup(name, data, **options):
    cfg = config(name, data, {f"task.{option}": value for option, value in options.items()})
    return tasks.setup_task(cfg.task)


def sentences(name, split):
    """The ids of a split's sentences, as written but without </s>: one or two for each row."""
    return [
        [[FIRST + word for word in text] for text in texts] for texts, _ in rows_of(name)[split]
    ]


@pytest.mark.parametrize("name", ["CoLA", "MRPC", "STS-B", "MNLI"])
def test_nothing_to_truncate_equals_sentence_prediction(name, folders):
    ours = setup(name, folders[name]).load_dataset("valid")
    stock = config(name, folders[name], {"task._name": "sentence_prediction"})
    with open_dict(stock):
        for name in ("multilabel", "train_subset"):
            stock.task.pop(name)
    theirs = tasks.setup_task(stock.task).load_dataset("valid")
    assert len(ours) == len(theirs) == 23
    np.testing.assert_array_equal(ours.ordered_indices(), theirs.ordered_indices())
    rows = list(range(23))
    batch, expected = (d.collater([d[row] for row in rows]) for d in (ours, theirs))
    assert batch["net_input"]["src_tokens"].equal(expected["net_input"]["src_tokens"])
    assert batch["target"].view(-1).equal(expected["target"].view(-1))
    assert batch["ntokens"] == expected["ntokens"] and batch["nsentences"] == 23


@pytest.mark.parametrize("limit", [4, 9, 12])
@pytest.mark.parametrize("name", ["CoLA", "MRPC"])
def test_truncation(name, limit, folders, caplog):
    task = setup(name, folders[name], max_positions=limit)
    with caplog.at_level(logging.INFO):
        dataset = task.load_dataset("train")
    too_long = 0
    for row, words in enumerate(sentences(name, "train")):
        if len(words) == 1:
            expected = [BOS, *words[0][: limit - 2], EOS]
            too_long += len(words[0]) + 2 > limit
        else:
            first, second = pair_lengths(len(words[0]), len(words[1]), limit - 4)
            expected = [BOS, *words[0][:first], EOS, EOS, *words[1][:second], EOS]
            too_long += len(words[0]) + len(words[1]) + 4 > limit
        assert dataset[row]["net_input.src_tokens"].tolist() == expected
        assert dataset.size(row) == dataset[row]["net_input.src_lengths"] == len(expected) <= limit
    assert too_long
    assert f"train: {too_long} of 53 sequences are longer than --max-positions {limit}" in (
        caplog.text
    )


@pytest.mark.parametrize("name", ["CoLA", "MRPC", "STS-B"])
def test_a_test_split_has_no_targets(name, folders):
    dataset = setup(name, folders[name]).load_dataset("test")
    assert len(dataset) == 9
    assert "target" not in dataset.collater([dataset[0], dataset[1]])


@pytest.mark.parametrize(
    "limits", [{"max_tokens": 80}, {"max_sentences": 8}], ids=["max_tokens", "batch_size"]
)
def test_every_row_is_in_one_batch(limits, folders):
    task = setup("MRPC", folders["MRPC"], max_positions=12)
    iterator = task.get_batch_iterator(task.load_dataset("train"), max_positions=12, **limits)
    batches = list(iterator.next_epoch_itr(shuffle=True))
    assert sorted(row for batch in batches for row in batch["id"].tolist()) == list(range(53))
    for batch in batches:
        tokens = batch["net_input"]["src_tokens"]
        assert tokens.numel() <= limits.get("max_tokens", 8 * 12)
        assert len(tokens) <= limits.get("max_sentences", 80)


@pytest.mark.parametrize(
    "name, option, value, message",
    [
        ("CoLA", "shorten_method", "truncate", r"--shorten-method \(truncate\) has no effect"),
        ("CoLA", "shorten_data_split_list", "train", r"--shorten-data-split-list \(train\) has"),
        ("CoLA", "add_prev_output_tokens", True, r"--add-prev-output-tokens \(True\) has no"),
        ("CoLA", "num_classes", 3, r"--num-classes is 3; .* need 2 \(0, 1\)"),
        ("MNLI", "num_classes", 2, r"need 3 \(contradiction, entailment, neutral\)"),
        ("STS-B", "num_classes", 2, r"--num-classes is 2; .* need 1 \(a score each\)"),
        ("CoLA", "regression_target", True, r"holds classes \(dict.txt\); drop the flag"),
        ("STS-B", "regression_target", False, r"holds scores .* pass --regression-target"),
    ],
    ids=["shorten", "shorten_splits", "prev_output_tokens", "classes", "mnli_classes", "scores",
         "no_regression", "regression"],
)  # fmt: skip
def test_options_that_would_be_wrong_are_refused(name, option, value, message, folders):
    with pytest.raises(ValueError, match=message):
        setup(name, folders[name], **{option: value})


def test_no_labels_at_all_are_refused(copy):
    data = copy("CoLA")
    shutil.rmtree(data / "label")
    with pytest.raises(FileNotFoundError, match="label/dict.txt"):
        setup("CoLA", data)


def test_two_dictionaries_are_refused(copy):
    data = copy("MRPC")
    path = data / "input1" / "dict.txt"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    with pytest.raises(ValueError, match="input1/dict.txt is not the dictionary of input0"):
        setup("MRPC", data)


@pytest.mark.parametrize("key", ["input1", "label"])
def test_lost_rows_are_refused(key, copy):
    data = copy("MRPC")
    write_bin(data / key / "valid", [[FIRST, EOS]] * 20)
    with pytest.raises(
        ValueError, match=f"split valid .* missing rows: 23 in input0.* 20 in {key}"
    ):
        setup("MRPC", data).load_dataset("valid")


def test_an_absent_split_is_named(folders):
    with pytest.raises(
        FileNotFoundError, match="input0/valid7.bin is missing; the folder has no split valid7"
    ):
        setup("CoLA", folders["CoLA"]).load_dataset("valid7")


def test_a_second_sentence_that_lacks_a_split_is_named(copy):
    data = copy("MRPC")
    for path in (data / "input1").glob("valid.*"):
        path.unlink()
    with pytest.raises(FileNotFoundError, match="input1/valid.bin"):
        setup("MRPC", data).load_dataset("valid")


def test_an_unknown_label_is_refused(copy):
    data = copy("CoLA")
    unknown = 3
    ids = [FIRST] * 5 + [unknown] + [FIRST + 1] * 17
    write_bin(data / "label" / "valid", [[label, EOS] for label in ids])
    with pytest.raises(
        ValueError, match="row 6 of split valid has a label that is not one of 0, 1"
    ):
        setup("CoLA", data).load_dataset("valid")


@pytest.mark.parametrize("line", ["", "high", "nan", "0.1 0.2"])
def test_a_line_without_a_score_is_refused(line, copy):
    data = copy("STS-B")
    path = data / "label" / "valid.label"
    scores = path.read_text().splitlines()
    path.write_text("\n".join([*scores[:3], line, *scores[4:]]) + "\n")
    with pytest.raises(
        ValueError, match=f"line 4 of .*valid.label is '{line}', which is not a score"
    ):
        setup("STS-B", data).load_dataset("valid")


def test_no_room_for_a_pair_is_refused(folders):
    task = setup("MRPC", folders["MRPC"], max_positions=3)
    with pytest.raises(ValueError, match="1 tokens for 2 sentences"):
        task.load_dataset("train")


def test_a_model_of_another_length_is_refused(folders):
    cfg = config("CoLA", folders["CoLA"])
    task = tasks.setup_task(cfg.task)
    model = Namespace(**{**vars(cfg.model), "max_positions": 64})  # cfg's own is shared
    with pytest.raises(ValueError, match="model.max_positions is 64 and task.max_positions 32"):
        task.build_model(model)
