"""tupe-convert: a folder with its vocabulary, the commands that follow, and --untie."""

import contextlib
import os
import re
import resource
import shlex
import shutil

import pytest
import torch
from transformers import AutoTokenizer

from helpers.authors import their_checkpoint
from helpers.models import MAX_POSITIONS, MEAN_POOLING, build, hub_of, save
from helpers.running import refused, run_here
from helpers.vocabularies import (
    convert,
    printed_commands,
    write_authors,
    write_gpt2,
    write_roberta,
    write_stock,
)
from tupe_fairseq.data.indexed import read_sentences
from tupe_fairseq.data.tokenizer import Tokenizer
from tupe_fairseq.files import read_json


def length_of(words):
    return words[words.index("--tokens-per-sample") + 1]


def test_a_converted_folder_goes_on_training(tmp_path):
    """Masked words of prepared text, for one update, with the printed commands."""
    out = tmp_path / "the model"
    text = convert(write_gpt2(tmp_path / "theirs"), out)
    assert f"tupe-prepare-task --vocabulary '{out}' ..." in text
    files = {"model.pt", "dict.txt", "encoder.json", "vocab.bpe", "vocabulary.json"}
    assert set(os.listdir(out)) == files
    lines = ["the a the", "a  The-the", "(the) a"]
    (tmp_path / "train.txt").write_text("\n\n".join(lines) + "\n")
    (tmp_path / "valid.txt").write_text("the the the\n")
    data = tmp_path / "data-bin"
    (command,) = printed_commands(text).values()
    (maker,) = (shlex.split(one) for one in re.findall(r"^# .*(tupe-prepare-\S+ .*):$", text, re.M))
    # longer lines are split, because fairseq would skip them
    assert length_of(maker) == length_of(command)
    run_here(
        *maker, "--input", tmp_path / "train.txt", "--valid-input",
        tmp_path / "valid.txt", "--workers", 1, "--output-dir", data,
    )  # fmt: skip
    sentences = [row.tolist() for row in read_sentences(str(data / "train"))]
    tokenizer = Tokenizer.load(str(out))
    expected = [[*tokenizer.encode(line), 2] for line in lines]
    assert [one for one in sentences if one != [2]] == expected
    vocabulary = read_json(str(data / "report.json"))["vocabulary"]
    assert vocabulary == {"type": "gpt2", "dictionary": len(tokenizer.symbols) + 1, "given": True}
    process = run_here(
        "fairseq-train", data, *command[1:], "--save-dir", tmp_path / "run", "--max-update", 1,
        "--batch-size", 2, "--cpu", "--num-workers", 0, "--data-buffer-size", 0,
    )  # fmt: skip
    assert "done training" in process.stdout


def test_hubs_of_roberta(monkeypatch, tmp_path):
    """With GPT-2's files, without one of them, and from a downloaded roberta-base."""
    (tmp_path / "vocabulary.json").write_text("of another model")
    monkeypatch.chdir(tmp_path)
    convert(write_gpt2(tmp_path), tmp_path / "out")
    # for a checkpoint that a user trained, the vocabulary is in the data folder
    (tmp_path / "run").mkdir()
    shutil.copy(tmp_path / "out" / "model.pt", tmp_path / "run")
    for folders in ([tmp_path / "out"], [tmp_path / "run", "model.pt", tmp_path / "out"]):
        hub = hub_of(*folders)
        index = hub.task.source_dictionary.index
        assert hub.encode("the the a").tolist() == [0, *map(index, ("257", "258", "259")), 2]
        assert hub.decode(hub.encode("the the a")) == "the the a"
    filled = hub.fill_mask("the<mask> a", topk=300)
    assert ("the the a", " the") in [(text, word) for text, _, word in filled]
    os.remove(tmp_path / "out" / "vocab.bpe")
    with pytest.raises(FileNotFoundError, match=r"out/vocab\.bpe is missing"):
        hub_of(tmp_path / "out")
    lines = ["the the a", "A \u00e9, over there", " lead", "trail ", "a\nb", "a \r\n b", "\u3000a"]
    for mask, version in [(-1, 4), (4, 4), (4, 5)]:
        folder = tmp_path / f"roberta{mask} {version}"
        theirs, _ = write_roberta(folder, mask)
        for name in {4: ["merges.txt"], 5: ["vocab.json", "merges.txt", "dict.txt"]}[version]:
            (folder / name).unlink()
        convert([folder], folder / "out")
        hub = hub_of(folder / "out")
        assert hub.task.mask_idx == theirs.mask_token_id
        run_here("tupe-export", folder / "out" / "model.pt", "--output-dir", folder / "back",
                 "--model-type", "roberta")  # fmt: skip
        exported = AutoTokenizer.from_pretrained(folder / "back")
        for line in lines:
            ids = theirs(line)["input_ids"]
            assert hub.encode(line).tolist() == exported(line)["input_ids"] == ids, line


def test_a_vocabulary_of_an_earlier_run_does_not_stay(tmp_path):
    flags = write_gpt2(tmp_path)
    convert(flags, tmp_path / "out")
    convert(flags[:-4], tmp_path / "out", "--overwrite")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"model.pt", "dict.txt"}


@contextlib.contextmanager
def full_disk(size):
    """No file may have more bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_folder_as_it_was(tmp_path):
    def contents():
        return {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    flags = write_authors(tmp_path)
    convert(flags, tmp_path / "out")
    before = contents()
    torch.save(their_checkpoint()[0], tmp_path / "theirs.pt")
    theirs = tmp_path / "theirs.txt"
    theirs.write_text(theirs.read_text().replace("w1 98", "w1 97"))
    with full_disk(4000):
        message = refused("convert", *flags, "--overwrite", "--output-dir", tmp_path / "out")
    assert "File too large" in message
    assert contents() == before and not list(tmp_path.glob("out?*"))
    convert(flags, tmp_path / "out", "--overwrite")
    assert contents()["dict.txt"] != before["dict.txt"]


def test_a_full_disk_is_one_line_for_large_tensors(tmp_path):
    """torch and safetensors raise errors of their own."""
    flags = write_gpt2(tmp_path)
    write_stock(tmp_path, (tmp_path / "theirs.txt").read_text().splitlines(), max_positions=5000)
    with full_disk(200_000):
        assert "File too large" in refused("convert", *flags, "--output-dir", tmp_path / "out")
    convert(flags, tmp_path / "out")
    with full_disk(200_000):
        words = [tmp_path / "out", "--output-dir", tmp_path / "exported"]
        assert "File too large" in refused("export", *words)


# ---- --untie


@pytest.mark.parametrize("untied", [False, True], ids=["tied", "untied"])
def test_equal_position_vectors_and_the_same_logits(untied, vocabulary, tmp_path):
    """If all position vectors but that of <s> are equal, --untie loses nothing.

    Only the new positions differ, which are the same in every conversion.
    """
    options = {"position_encoding": "learned", "untie_weights_roberta": untied, **MEAN_POOLING}
    args, model = build(vocabulary / "dict.txt", {"mine": 3}, **options)
    table = model.encoder.sentence_encoder.position_bias.pos.weight.data
    words, mean = model.encoder.sentence_encoder.embed_tokens.weight, table[1:].mean(0)

    def converted(name):
        path, out = save(tmp_path / name, args, model), tmp_path / f"{name} untied"
        flags = [path, "--dictionary", vocabulary / "dict.txt", "--output-dir", out]
        assert "of this project" in refused("convert", *flags)
        labels = "--label-dict", vocabulary / "dict.txt"
        assert "other code's" in refused("convert", *flags, "--untie", *labels)
        text = convert(flags[:-2], out, "--untie")
        assert "TUPE-A WITH NEW POSITIONS" in text, text
        assert "--position-encoding=tupe" in printed_commands(text)["fairseq-train"]
        before = hub_of(path.parent, path.name, vocabulary, tokens_per_sample=MAX_POSITIONS)
        return before, hub_of(out)

    other = converted("other")[1].model.encoder.sentence_encoder
    assert other.embed_tokens.weight[1].equal(words[1])  # <pad>
    torch.testing.assert_close(other.embed_tokens.weight[4:], words[4:] + mean)
    table[1:] = mean
    before, after = converted("equal")
    assert after.model.args.position_encoding == "tupe"
    bias = after.model.encoder.sentence_encoder.position_bias.untied_absolute
    assert bias.pos.weight.equal(other.position_bias.untied_absolute.pos.weight)
    tokens = torch.randint(4, 100, (3, 20))
    tokens[:, 0] = 0
    tokens[1, 9:] = 1
    real = tokens.ne(1)
    with torch.no_grad():
        bias.pos_q_proj.weight.zero_()
        # a tied LM head sees the changed words
        for given in ({"features_only": not untied}, {"classification_head_name": "mine"}):
            expected, found = (hub.model(tokens, **given)[0] for hub in (before, after))
            if "features_only" in given:
                expected, found = expected[real], found[real]
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
