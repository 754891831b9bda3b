"""Fine-tuning a classification head on real sentences."""

import csv
import re

import pytest
import sentencepiece
import torch
from fairseq.models.roberta import RobertaModel

from helpers.running import USER_DIR
from helpers.training import SIZE, TRAINING, losses, pretrain

FINETUNING = [
    *TRAINING, *SIZE, "--task", "sentence_prediction", "--criterion", "sentence_prediction",
    "--num-classes", 2, "--init-token", 0, "--separator-token", 2, "--max-positions", 64,
    "--required-batch-size-multiple", 1, "--batch-size", 16, "--no-epoch-checkpoints",
    "--shorten-method", "truncate",
]  # fmt: skip


@pytest.fixture(scope="module")
def pretrained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained")
    pretrain(data, folder, "--rel-pos")
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def sst2(shared, data, run, tmp_path_factory):
    """A slice of SST-2, encoded and binarized as sentence_prediction reads it."""
    folder = tmp_path_factory.mktemp("sst2")
    pieces = sentencepiece.SentencePieceProcessor(str(data / "sentencepiece.bpe.model"))
    for split, official, rows in (("train", "train", 320), ("valid", "dev", 100)):
        with open(shared / "data" / "glue" / "SST-2" / f"{official}.tsv", encoding="utf-8") as file:
            table = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1 : rows + 1]
        encoded = [" ".join(pieces.encode(text, out_type=str)) for text, _ in table]
        (folder / f"{split}.input0").write_text("\n".join(encoded) + "\n")
        (folder / f"{split}.label").write_text("\n".join(label for _, label in table) + "\n")
    for key in ("input0", "label"):
        dictionary = ["--srcdict", data / "dict.txt"] if key == "input0" else []
        run("fairseq-preprocess", "--only-source", *dictionary, "--workers", 1,
            "--trainpref", folder / f"train.{key}", "--validpref", folder / f"valid.{key}",
            "--destdir", folder / "bin" / key)  # fmt: skip
    return folder / "bin"


def test_loss_falls_and_the_head_loads(sst2, pretrained, run, tmp_path):
    process = run(
        "fairseq-train", sst2, *FINETUNING, "--rel-pos", "--restore-file", pretrained,
        "--reset-optimizer", "--reset-dataloader", "--reset-meters", "--save-dir", tmp_path,
        "--lr", 3e-3, "--batch-size", 32, "--max-update", 100, "--total-num-update", 120,
        "--validate-interval", 5, "--save-interval", 5,
    )  # fmt: skip
    message = re.search(r"loaded (\d+) of (\d+) tensors; newly initialized: (.*)", process.stdout)
    loaded, total, new = message.groups()
    head = "classification_heads.sentence_classification_head."
    names = [head + part for part in ("dense.weight", "dense.bias", "out_proj.weight")]
    assert new.startswith(", ".join([*names, head + "out_proj.bias;"]))
    assert int(loaded) == int(total) - 4 > 30
    loss = losses(process)
    assert sorted(loss)[-1] == 100
    first, last = ([loss[n] for n in part] for part in (range(1, 31), range(71, 101)))
    assert sum(last) / 30 < sum(first) / 30 - 0.15

    hub = RobertaModel.from_pretrained(
        str(tmp_path), "checkpoint_last.pt", str(sst2), user_dir=USER_DIR, bpe=None
    ).eval()
    saved = torch.load(tmp_path / "checkpoint_last.pt", map_location="cpu")["model"]
    head = hub.model.classification_heads["sentence_classification_head"]
    name = "classification_heads.sentence_classification_head.out_proj.weight"
    assert head.out_proj.weight.equal(saved[name])
    tokens = hub.task.source_dictionary.encode_line("<s> ▁the ▁a", append_eos=True).long()
    assert hub.predict("sentence_classification_head", tokens).shape == (1, 2)


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--init-token", 4], "--init-token is 4: sentences would not begin with <s>"),
        (["--max-positions", 128], "max_positions is 64 in the checkpoint but 128 in this model; "
                                   "pass --max-positions 64"),
        (["--tie-cls"], "--tie-cls is False in the checkpoint and True in this model"),
    ],
    ids=["no_init_token", "max_positions", "position_options"],
)  # fmt: skip
def test_what_would_silently_be_wrong_stops(flags, message, sst2, pretrained, run, tmp_path):
    process = run(
        "fairseq-train", sst2, *FINETUNING, "--rel-pos", "--restore-file", pretrained,
        "--reset-optimizer", "--save-dir", tmp_path, "--max-update", 1, *flags, check=False,
    )  # fmt: skip
    assert process.returncode
    assert message in process.stdout


def test_no_init_token_at_all_stops(sst2, run, tmp_path):
    where = FINETUNING.index("--init-token")
    flags = FINETUNING[:where] + FINETUNING[where + 2 :]
    process = run("fairseq-train", sst2, *flags, "--save-dir", tmp_path, check=False)
    assert process.returncode
    assert "--init-token is None" in process.stdout
