"""A training that cannot be what was asked for ends, and our reason is the last line."""

import shutil

import pytest
import torch

from helpers import cli

LAST = "checkpoint_last.pt"
MODEL = {
    "width": (["--encoder-embed-dim", 24], "--encoder-embed-dim is 12 in the checkpoint and 24"),
    "layers": (["--encoder-layers", 3], "--encoder-layers is 2 in the checkpoint and 3"),
    "inner width": (["--encoder-ffn-embed-dim", 8], "--encoder-ffn-embed-dim is 20 in the check"),
    "heads": (["--encoder-attention-heads", 2], "--encoder-attention-heads is 3 in the checkpoint"),
    "longer": (["--max-positions", 20], "--max-positions is 16 in the checkpoint and 20 in this"),
    "tied [CLS]": (["--tie-cls"], "--tie-cls is False in the checkpoint and True in the model"),
    "no bias": (["--rel-pos-buckets", 8], "--rel-pos-buckets is 32 in the checkpoint and 8"),
    "encoding": (["--position-encoding", "learned"], "--position-encoding is tupe in the checkp"),
}


@pytest.fixture(scope="module")
def stock(data, tmp_path_factory):
    """A checkpoint of fairseq's own RoBERTa."""
    folder = tmp_path_factory.mktemp("stock")
    flags = ["--arch", "roberta_base", *cli.SIZE, *cli.PRETRAINING, "--task", "masked_lm"]
    cli.train(data, folder, *flags, "--max-update", 1)
    return folder / LAST


def last_line(error):
    """What a traceback ends with."""
    return str(error.value).splitlines()[-1]


@pytest.mark.parametrize("what", MODEL)
def test_another_model(what, data, pretrained, tmp_path):
    flags, reason = MODEL[what]
    flags = ["--rel-pos", *flags, "--restore-file", pretrained / LAST]
    with pytest.raises(ValueError) as error:
        cli.pretrain(data, tmp_path, *flags)
    assert reason in last_line(error) and str(pretrained / LAST) in last_line(error)


@pytest.mark.parametrize("words", [cli.WORDS[::-1], cli.WORDS[:-1]], ids=["same size", "smaller"])
def test_another_vocabulary(words, pretrained, tmp_path):
    data = cli.write_text_data(tmp_path / "data", words=words)
    with pytest.raises(ValueError) as error:
        cli.pretrain(data, tmp_path, "--rel-pos", "--finetune-from-model", pretrained / LAST)
    same = "a different vocabulary of the same size; use its own dict.txt"
    fewer = "the checkpoint has 35 symbols and dict.txt has 34"
    assert (same if len(words) == len(cli.WORDS) else fewer) in last_line(error)


@pytest.mark.parametrize("flag", ["--restore-file", "--finetune-from-model"])
def test_stock_roberta(flag, stock, data, tmp_path):
    with pytest.raises(ValueError) as error:
        cli.pretrain(data, tmp_path, "--rel-pos", flag, stock)
    assert "stock RoBERTa's" in last_line(error) and "tupe-convert" in last_line(error)


@pytest.mark.parametrize("flag", ["--restore-file", "--finetune-from-model"])
def test_no_file(flag, data, tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        cli.pretrain(data, tmp_path, flag, tmp_path / "absent.pt")
    assert f"{tmp_path / 'absent.pt'} is not a file" in last_line(error)


def test_files_that_are_no_checkpoint(data, pretrained, tmp_path):
    whole = (pretrained / LAST).read_bytes()
    torch.save({"a": 1}, tmp_path / "other.pt")
    state = torch.load(pretrained / LAST, weights_only=True)
    del state["model"]["encoder.lm_head.dense.bias"]
    torch.save(state, tmp_path / "part.pt")
    with pytest.raises(ValueError, match="part.pt .* no tensor encoder.lm_head.dense.bias"):
        cli.pretrain(data, tmp_path / "out", "--rel-pos", "--restore-file", tmp_path / "part.pt")
    (tmp_path / "half.pt").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.pt").write_text("a text\n")
    for name in ("other", "half", "text"):
        with pytest.raises(ValueError) as error:
            cli.pretrain(data, tmp_path / "out", "--restore-file", tmp_path / f"{name}.pt")
        assert f"{name}.pt is damaged or not a checkpoint" in last_line(error)
        assert "weights_only" not in str(error.value)


def test_the_last_line_of_a_process(data, pretrained, tmp_path):
    words = ["fairseq-train", data, *cli.MODEL, *cli.PRETRAINING, "--save-dir", tmp_path]
    process = cli.run(*words, "--tie-cls", "--restore-file", pretrained / LAST, check=False)
    assert process.returncode == 1
    last = process.stdout.splitlines()[-1]
    assert last.startswith(f"ValueError: {pretrained / LAST} does not fit this model: ")


def test_masked_lm_shows_the_reason_above(data, pretrained, tmp_path, caplog):
    """fairseq's own task has no hook for it, and fairseq's last line is another."""
    flags = ["--rel-pos", "--tie-cls", "--task", "masked_lm", "--restore-file", pretrained / LAST]
    with pytest.raises(Exception, match="Cannot load model parameters") as error:
        cli.pretrain(data, tmp_path, *flags)
    assert "--tie-cls is False in the checkpoint" in str(error.value.__context__)


FLAGS = {
    "samples too long": (["--tokens-per-sample", 17], "--tokens-per-sample (17) is above --max-p"),
    "pooling": (["--pooling", "mean"], "--pooling mean is for classification heads"),
    "fixed": (["--mha-heads-to-keep", 1], "--mha-heads-to-keep (1) does not apply"),
    "activation": (["--activation-fn", "gelu_fast"], "unknown activation function 'gelu_fast'"),
    "option of others": (["--symmetric-basis"], "'tupe' does not take symmetric_basis"),
    "documents": (["--isolate-documents", "--task", "masked_lm"], "needs --task tupe_masked_lm"),
    "one document": (
        ["--isolate-documents", "--sample-break-mode", "eos"],
        "--isolate-documents has no effect with --sample-break-mode eos",
    ),
    "whole words": (["--mask-whole-words"], "there is no sentencepiece.bpe.model in"),
}


@pytest.mark.parametrize("what", FLAGS)
def test_flags_that_do_not_fit(what, data, tmp_path):
    flags, reason = FLAGS[what]
    with pytest.raises((OSError, ValueError)) as error:
        cli.pretrain(data, tmp_path, *flags)
    assert reason in str(error.value)


def test_a_text_without_documents(data, tmp_path):
    shutil.copytree(data, tmp_path / "data")
    shutil.copy(tmp_path / "data" / "dict.txt", tmp_path / "dict.txt")
    cli.write_bin(tmp_path / "data" / "train", [[5, 6, 7, 2]] * 20)
    with pytest.raises(ValueError, match="has no empty line, which separates documents"):
        cli.pretrain(tmp_path / "data", tmp_path, "--isolate-documents")
