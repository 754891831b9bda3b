"""--warmup-ratio: the updates it counts on are those that fairseq makes."""

import math

import pytest
import torch
from fairseq import optim, tasks
from fairseq.data.iterators import EpochBatchIterator, GroupedIterator
from fairseq.optim import lr_scheduler

from helpers.glue_training import RATIO, ROWS, config, make, records, train
from helpers.training import assert_same_weights
from tupe_fairseq.programs.schedule import total_updates, warmup_updates

# 53 rows in batches of 8 are 7 batches: 7 updates in the first epoch, 4 in each of two more
FLAGS = ["--max-epoch", 3, "--update-freq", "1,2", "--save-interval-updates", 10]
WARMUP, TOTAL, LR = 3, 15, 0.01


@pytest.fixture(scope="module")
def cola(tmp_path_factory):
    return make("CoLA", tmp_path_factory.mktemp("glue") / "CoLA")


def rates(process):
    """Learning rate, as printed, by update."""
    return {int(r["num_updates"]): r["lr"] for r in records(process, "lr")}


@pytest.fixture(scope="module")
def unbroken(cola, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    return folder, train("CoLA", cola, folder, *RATIO, 0.2, *FLAGS)


def test_it_is_polynomial_decay_with_the_numbers_put_in(cola, unbroken, tmp_path):
    folder, process = unbroken
    plain = train("CoLA", cola, tmp_path, "--lr-scheduler", "polynomial_decay",
                  "--warmup-updates", WARMUP, "--total-num-update", TOTAL, *FLAGS)  # fmt: skip
    assert rates(process) == rates(plain)
    assert sorted(rates(process)) == list(range(1, TOTAL + 1))
    for update, rate in rates(process).items():
        expected = LR * min(update / WARMUP, (TOTAL - update) / (TOTAL - WARMUP))
        assert float(rate) == pytest.approx(expected, rel=1e-4)
    # so the first update, whose rate is not printed, had the same one, too
    assert_same_weights(folder / "checkpoint_last.pt", tmp_path / "checkpoint_last.pt")
    message = f"7 batches per epoch: same as --warmup-updates {WARMUP} --total-num-update {TOTAL}"
    assert message in process.stdout


def test_resumed_mid_epoch_it_is_the_same(cola, unbroken, tmp_path):
    folder, process = unbroken
    resumed = train("CoLA", cola, tmp_path, *RATIO, 0.2, *FLAGS, "--restore-file",
                    folder / "checkpoint_2_10.pt")  # fmt: skip
    assert "(epoch 2 @ 10 updates)" in resumed.stdout
    rest = {update: rate for update, rate in rates(process).items() if update > 10}
    assert rates(resumed) == rest
    assert_same_weights(folder / "checkpoint_last.pt", tmp_path / "checkpoint_last.pt")


def test_another_task_is_refused(cola, tmp_path):
    process = train("CoLA", cola, tmp_path, *RATIO, 0.2, "--max-epoch", 1, "--init-token", 0,
                    "--task", "sentence_prediction", check=False)  # fmt: skip
    assert process.returncode
    message = "--warmup-ratio with --max-epoch needs --task glue_sentence_prediction"
    assert message in process.stdout
    assert not list(tmp_path.glob("*.pt"))


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("update_freq", [[1], [2], [3, 1], [2, 3, 4, 1, 1]], ids=str)
def test_total_updates_counts_what_fairseq_iterates(update_freq, workers, skip, cola):
    task = tasks.setup_task(config("CoLA", cola).task)
    dataset = task.load_dataset("train")
    epochs = 4
    iterator = task.get_batch_iterator(
        dataset, max_sentences=5, num_shards=workers, skip_remainder_batch=skip
    )
    assert isinstance(iterator, EpochBatchIterator)
    done = 0
    for epoch in range(epochs):
        frequency = update_freq[min(epoch, len(update_freq) - 1)]
        batches = iterator.next_epoch_itr(shuffle=True)
        done += sum(1 for _ in GroupedIterator(batches, frequency, skip_remainder_batch=skip))
    batches = task.cfg._get_root().batches_per_epoch
    assert total_updates(batches, epochs, 0, update_freq, skip) == done
    assert total_updates(batches, epochs, done - 2, update_freq, skip) == done - 2
    assert total_updates(batches, epochs, done + 2, update_freq, skip) == done
    assert total_updates(None, 0, 7, update_freq, skip) == 7


def test_warmup_is_rounded_to_the_nearest():
    assert [warmup_updates(0.06, n) for n in (8, 9, 100, 2680)] == [0, 1, 6, 161]
    assert [warmup_updates(0.5, n) for n in (1, 3, 5)] == [1, 2, 3]


def scheduler(cfg):
    parameters = [torch.nn.Parameter(torch.zeros(1))]
    optimizer = optim.build_optimizer(cfg.optimizer, parameters)
    return lr_scheduler.build_lr_scheduler(cfg.lr_scheduler, optimizer)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"lr_scheduler.warmup_updates": 5}, r"--warmup-updates \(5\) and --warmup-ratio \(0.1\)"),
        ({"lr_scheduler.total_num_update": 50.0}, r"--total-num-update \(50\) and --warmup-ratio"),
        ({"lr_scheduler.warmup_ratio": 1.0}, "--warmup-ratio is 1.0; it must be from 0 to below 1"),
        ({"lr_scheduler.warmup_ratio": -0.1}, "--warmup-ratio is -0.1; it must be"),
        ({"lr_scheduler.max_epoch": 0}, "give --max-epoch"),
    ],
    ids=["warmup_updates", "total_num_update", "all", "negative", "no_end"],
)
def test_what_makes_no_sense_is_refused(changes, message, cola):
    with pytest.raises(ValueError, match=message):
        scheduler(config("CoLA", cola, changes))


def test_max_update_alone_needs_no_task(cola):
    changes = {"lr_scheduler.max_epoch": 0, "lr_scheduler.max_update": 40}
    schedule = scheduler(config("CoLA", cola, changes))
    schedule.step_begin_epoch(1)
    assert (schedule.total_num_update, schedule.cfg.warmup_updates) == (40, 4)


def iterate(task, split, size):
    task.get_batch_iterator(task.dataset(split), max_sentences=size, disable_iterator_cache=True)


def test_runs_in_one_process_and_validation_sets_are_kept_apart(cola):
    runs = []
    for size in (8, 4):
        cfg = config("CoLA", cola)
        task = tasks.setup_task(cfg.task)
        task.load_dataset("train"), task.load_dataset("valid")
        runs.append((cfg, task, scheduler(cfg), size))
    for _, task, schedule, size in runs:
        iterate(task, "valid", 2)
        with pytest.raises(ValueError, match="needs --task glue_sentence_prediction"):
            schedule.step_begin_epoch(1)
        iterate(task, "train", size)
        iterate(task, "valid", 2)
    for _, _, schedule, size in runs:
        schedule.step_begin_epoch(1)
        assert schedule.total_num_update == 2 * math.ceil(ROWS["train"] / size)


def test_another_number_of_batches_in_a_later_epoch_is_refused(cola):
    cfg = config("CoLA", cola)
    task, schedule = tasks.setup_task(cfg.task), scheduler(cfg)
    task.load_dataset("train")
    iterate(task, "train", 8)
    schedule.step_begin_epoch(1)
    schedule.step_begin_epoch(2)
    iterate(task, "train", 4)
    with pytest.raises(ValueError, match="an epoch had 7 batches and now has 14"):
        schedule.step_begin_epoch(3)
