"""tupe_masked_lm: isolated documents, and whole-word masking."""

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.data import MaskTokensDataset

from helpers import training

BOS, PAD, EOS = 0, 1, 2
ISOLATED = "--isolate-documents"


def build(data, *flags):
    words = [*training.MODEL, *training.PRETRAINING, "--rel-pos", *flags]
    return training.build(data, *words)[:2]


def samples(data, *flags):
    """Source and target of the first samples, and their tokens before masking."""
    task, _ = build(data, *flags)
    task.load_dataset("train")
    for n in range(100):
        sample = task.dataset("train")[n]
        source, target = sample["net_input"], sample["target"]
        yield source, target, torch.where(target == PAD, source, target)


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--mask-whole-words", "--mask-prob", 0.3],
        ["--leave-unmasked-prob", 0, "--freq-weighted-replacement"],
        ["--random-token-prob", 0],
        ["--random-token-prob", 0, "--leave-unmasked-prob", 0],
    ],
    ids=str,
)
def test_masks_are_those_of_fairseq(flags, subwords):
    stock, _ = build(subwords, "--task", "masked_lm", "--seed", 7)
    task, _ = build(subwords, *flags, "--seed", 7)
    for one in (stock, task):
        one.load_dataset("train")
    ordered = task.dataset("train").ordered_indices()
    assert ordered.tolist() == stock.dataset("train").ordered_indices().tolist()
    own, cfg = task.dataset("train").dataset, task.cfg
    begins = [n < 4 or x.startswith("\u2581") for n, x in enumerate(task.dictionary.symbols)]
    names = ("seed", "mask_prob", "leave_unmasked_prob", "random_token_prob")
    options = {name: getattr(cfg, name) for name in (*names, "freq_weighted_replacement")}
    options["mask_whole_words"] = torch.tensor(begins).long() if cfg.mask_whole_words else None
    words = own.dataset, task.dictionary, PAD, task.mask_idx
    expected = MaskTokensDataset.apply_mask(*words, **options)
    for epoch in (1, 3):
        for dataset in (task.dataset("train"), *expected):
            dataset.set_epoch(epoch)
        for n in ordered[:50]:
            for name, dataset in zip(("net_input", "target"), expected):
                assert own[n][name].equal(dataset[n])


@pytest.mark.parametrize("flags", [["none"], ["complete", "--mask-whole-words"]], ids=str)
def test_samples_are_those_of_fairseq_but_for_the_starts(flags, subwords):
    """The first tokens of documents are never masked."""
    flags = ["--mask-prob", 0.5, "--sample-break-mode", *flags]
    starts = predicted = 0
    for stock, own in zip(samples(subwords, *flags), samples(subwords, *flags, ISOLATED)):
        (_, stock_target, before), (source, target, after) = stock, own
        changed = before != after
        follows = torch.zeros_like(changed)
        follows[1:] = (before[:-1] == EOS) | (before[:-1] == BOS)
        assert changed.equal(before.eq(EOS) & follows) and after[changed].eq(BOS).all()
        assert source[changed].eq(BOS).all() and target[changed].eq(PAD).all()
        assert target[~changed].equal(stock_target[~changed])
        starts += int(changed.sum())
        predicted += int(stock_target[changed].ne(PAD).sum())
    assert starts > 10 and predicted > 5


def test_a_sample_is_encoded_as_its_documents_alone(data):
    _, model = build(data, ISOLATED)
    for parameter in model.eval().parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    first, second, third = ([BOS, 7, 8, EOS], [BOS, 9, EOS], [BOS, 10, 11, 12, EOS])
    tokens = torch.tensor([[*first, *second, *third], [*third, *first, PAD, PAD, PAD]])
    logits, _ = model(tokens)
    for row, documents in enumerate([(first, second, third), (third, first)]):
        start = 0
        for document in documents:
            expected, _ = model(torch.tensor([document]))
            x = logits[row, start : start + len(document)]
            # some hundreds of roundings of logits of size 1
            torch.testing.assert_close(x, expected[0], rtol=0, atol=1e-5)
            start += len(document)


def test_fairseqs_own_commands_keep_the_documents(subwords_trained):
    """fairseq-validate loads the model with the options of the file."""
    (model,), _, task = load_model_ensemble_and_task([str(subwords_trained / "checkpoint_last.pt")])
    assert model.encoder.document_start == BOS
    task.load_dataset("valid")
    valid = task.dataset("valid")
    starts = [valid[n]["net_input"][1:].eq(BOS).any() for n in range(len(valid))]
    assert any(starts)
