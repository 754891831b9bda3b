"""--isolate-documents: the samples of masked_lm, a training, and what is refused."""

import shutil
from pathlib import Path

import pytest
import torch
from fairseq import options, tasks
from fairseq.checkpoint_utils import load_model_ensemble_and_task

from helpers.running import USER_DIR
from helpers.training import TRAINING, losses
from tupe_fairseq import TupeRobertaModel
from tupe_fairseq.plugin.model.isolated_documents import DocumentStarts, UnmaskedStarts

#: 39 documents for training, 1 for validation
DATA = Path(__file__).parents[2] / "compatibility" / "v0_1" / "data-bin"
BOS, PAD, EOS = 0, 1, 2
SIZES = [
    "--encoder-layers", 2, "--encoder-embed-dim", 8, "--encoder-ffn-embed-dim", 8,
    "--encoder-attention-heads", 2, "--task", "masked_lm", "--tokens-per-sample", 96,
    "--max-positions", 96,
]  # fmt: skip
FLAG = "--isolate-documents"


def built(*flags, data=DATA):
    """The task and the model of fairseq-train."""
    words = [data, "--user-dir", USER_DIR, "--arch", "tupe_roberta_tiny", *SIZES, *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), [str(w) for w in words])
    task = tasks.setup_task(args)
    return task, task.build_model(args)


def samples(*flags, split="train"):
    """Of each sample the source, the target, and the tokens before masking."""
    task, _ = built(*flags)
    task.load_dataset(split)
    for number in range(len(task.dataset(split))):
        sample = task.dataset(split)[number]
        source, target = sample["net_input.src_tokens"], sample["target"]
        yield source, target, torch.where(target == PAD, source, target)


class Rows(torch.utils.data.Dataset):
    def __init__(self, *rows):
        self.rows = [torch.tensor(row) for row in rows]

    def __getitem__(self, index):
        return self.rows[index]


@pytest.mark.parametrize(
    "tokens, expected",
    [
        ([0, 7, 2, 8, 2], [0, 7, 2, 8, 2]),
        ([0, 7, 2, 2, 8, 2], [0, 7, 2, 0, 8, 2]),
        ([0, 2, 8, 2], [0, 0, 8, 2]),
        ([0, 7, 2, 2], [0, 7, 2, 0]),
        ([0, 7, 2, 2, 2, 8], [0, 7, 2, 0, 0, 8]),
    ],
    ids=["one document", "two", "begins with a separator", "ends with one", "two separators"],
)
def test_separators_become_starts(tokens, expected):
    given = Rows(tokens)
    assert DocumentStarts(given, BOS, EOS)[0].tolist() == expected
    assert given[0].tolist() == tokens


def test_starts_within_a_sample_are_never_masked():
    mask, word = 9, 5
    given = [{
        "net_input.src_tokens": torch.tensor([mask, word, EOS, mask, word, mask, BOS, word]),
        "target": torch.tensor([BOS, PAD, PAD, BOS, PAD, 7, BOS, PAD]), "id": 4,
    }]  # fmt: skip
    sample = UnmaskedStarts(given, BOS, PAD)[0]
    # the first <s> is masked as it was
    assert sample["net_input.src_tokens"].tolist() == [mask, word, EOS, BOS, word, mask, BOS, word]
    assert sample["target"].tolist() == [BOS, PAD, PAD, PAD, PAD, 7, PAD, PAD]
    assert sample["id"] == 4


@pytest.mark.parametrize("further", [[], ["--mask-whole-words"]], ids=["pieces", "words"])
@pytest.mark.parametrize("mode", ["none", "complete"])
def test_samples_are_fairseqs_but_for_the_starts(mode, further):
    # so many that without care some separators would be masked
    flags = ["--sample-break-mode", mode, "--mask-prob", 0.5, *further]
    starts, predicted = 0, 0
    for theirs, ours in zip(samples(*flags), samples(*flags, FLAG)):
        (_, their_target, before), (source, target, after) = theirs, ours
        changed = before != after
        assert before[changed].eq(EOS).all() and after[changed].eq(BOS).all()
        follows = torch.zeros_like(changed)
        follows[1:] = (before[:-1] == EOS) | (before[:-1] == BOS)
        assert changed.equal(before.eq(EOS) & follows)
        assert source[changed].eq(BOS).all() and target[changed].eq(PAD).all()
        assert target[~changed].equal(their_target[~changed])
        starts += int(changed.sum())
        predicted += int(their_target[changed].ne(PAD).sum())
    # an empty line between 39 documents; complete leaves out what is too long, and begins anew
    assert starts >= 38 and predicted > 5


def test_both_splits_and_every_epoch():
    task, model = built(FLAG)
    task.build_model(model.args)  # which asks again
    task.load_dataset("train", epoch=2, combine=True)
    task.load_dataset("valid")  # of one document: nothing separates it
    for split, more in (("train", True), ("valid", False)):
        found = [task.dataset(split)[n] for n in range(len(task.dataset(split)))]
        assert any(s["net_input.src_tokens"][1:].eq(BOS).any() for s in found) == more
    batch = task.dataset("train").collater(found[:1])
    assert set(batch) == {"id", "net_input", "target", "nsentences", "ntokens"}


def test_a_sample_is_encoded_as_its_documents_alone():
    _, model = built(FLAG, "--rel-pos", "--unpad")
    for parameter in model.eval().parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    first, second, third = ([BOS, 7, 8, EOS], [BOS, 9, EOS], [BOS, 10, 11, 12, EOS])
    tokens = torch.tensor([[*first, *second, *third], [*third, *first, PAD, PAD, PAD]])
    logits, _ = model(tokens)
    of_row = {0: (first, second, third), 1: (third, first)}
    for row, documents in of_row.items():
        start = 0
        for document in documents:
            alone, _ = model(torch.tensor([document]))
            found = logits[row, start : start + len(document)]
            # some hundreds of float32 roundings of logits of size 1
            torch.testing.assert_close(found, alone[0], rtol=0, atol=1e-5)
            start += len(document)
    given = model.encoder.sentence_encoder.embed_tokens(tokens)
    out = [
        model.encoder.sentence_encoder(tokens, token_embeddings=embeddings)["encoder_out"][0]
        for embeddings in (None, given)
    ]
    assert out[0].equal(out[1])


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--sample-break-mode", "complete_doc"], "complete_doc already ends each sample with its"),
        (["--sample-break-mode", "eos"], "eos makes each sentence a sample of its own; drop"),
    ],
)
def test_samples_of_one_document_are_refused(flags, message):
    with pytest.raises(
        ValueError, match=f"{FLAG} has nothing to do: --sample-break-mode {message}"
    ):
        built(FLAG, *flags)


def test_another_task_is_refused():
    task, model = built()
    model.args.isolate_documents = True
    task.__class__ = type("Other", (tasks.FairseqTask,), {})
    task.cfg._name = "other"
    with pytest.raises(ValueError, match="with --task masked_lm, not other; drop the flag"):
        task.build_model(model.args)


def test_a_text_without_empty_lines_is_refused(tmp_path):
    folder = Path(shutil.copytree(DATA, tmp_path / "data"))
    for ending in ("bin", "idx"):  # of one document
        shutil.copy(folder / f"valid.{ending}", folder / f"train.{ending}")
    task, _ = built(FLAG, data=folder)
    task.load_dataset("valid")
    with pytest.raises(ValueError, match=f"{FLAG}: the train split of .* has no empty line"):
        task.load_dataset("train")


@pytest.fixture(scope="module")
def trained(run, tmp_path_factory):
    """Two epochs, with activations computed again, and a validation after each."""
    folder = tmp_path_factory.mktemp("isolated")
    process = run(
        "fairseq-train", DATA, *TRAINING, *SIZES, "--criterion", "masked_lm", FLAG,
        "--sample-break-mode", "none", "--batch-size", 4, "--max-epoch", 1, "--unpad",
        "--required-batch-size-multiple", 1, "--checkpoint-activations", "--save-dir", folder,
    )  # fmt: skip
    return folder / "checkpoint_last.pt", process


def test_it_trains_and_validates(trained):
    _, process = trained
    found = losses(process)
    assert len(found) >= 10 and all(0 < loss < 12 for loss in found.values())
    assert '"valid_loss"' in process.stdout and '"valid_loss": "nan"' not in process.stdout


def test_a_trained_model_is_used_without(trained):
    """Nothing in the file asks for the flag, nor for texts of several documents."""
    path, _ = trained
    hub = TupeRobertaModel.from_pretrained(str(path.parent), path.name, str(DATA))
    assert hub.model.encoder.sentence_encoder.document_start is None
    assert "load_dataset" not in vars(hub.task)
    saved = torch.load(path, map_location="cpu")["model"]
    name = "encoder.sentence_encoder.layers.0.fc1.weight"
    assert hub.model.state_dict()[name].equal(saved[name])
    _, without = built()
    without.load_state_dict(saved)  # whole, its options compared
    assert without.state_dict()[name].equal(saved[name])


def test_fairseqs_own_commands_go_on_with_it(trained):
    """As fairseq-validate loads it: by the options of the file."""
    (model,), _, task = load_model_ensemble_and_task([str(trained[0])])
    assert model.encoder.sentence_encoder.document_start == BOS
    task.load_dataset("train")
    assert any(task.dataset("train")[n]["net_input.src_tokens"][1:].eq(BOS).any() for n in range(9))
