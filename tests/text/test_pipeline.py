"""tupe-prepare-pretrain from raw text to a data folder, read back by fairseq."""

import json
import shlex

import pytest
import sentencepiece

from helpers import raw_text
from helpers.training import SIZE, losses, pretrain
from tupe_fairseq.commands.prepare_pretrain import main
from tupe_fairseq.text.cleaning import line_hash

SYMBOLS = "A <mask> and <s> and </s> and <pad> and/or <unk> a<s>b<mask>c."
VOCABULARY = ["--character-coverage", 1, "--vocab-size", 120]


def prepare(*flags):
    main([str(flag) for flag in flags])


def report_of(folder):
    return json.loads((folder / "report.json").read_text())


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """Two files: documents of which some lines are repeated, harmful and broken ones among them."""
    folder = tmp_path_factory.mktemp("raw")
    documents = raw_text.documents(150)
    for i in range(0, 140, 10):  # in every split
        documents[i].append(f"{SYMBOLS} {documents[i][0]}")
    documents[20] += documents[7]
    documents[31] = list(documents[8])
    documents[40].append("lo " * 400 + "end.")
    raw_text.write(folder / "one.txt", documents[:100])
    raw_text.write(folder / "two.txt", documents[100:])
    with open(folder / "two.txt", "ab") as file:
        file.write(b"broken \xff\n" + documents[5][0].encode() + b"\n")
    return folder


def expected_lines(raw):
    """What must be in the data: every line once, without set order or any of our code."""
    lines = []
    for name in ("one.txt", "two.txt"):
        for line in (raw / name).read_bytes().split(b"\n"):
            if line and b"\xff" not in line and line not in lines:
                lines.append(line)
    return [line.decode().replace("<mask>", "< mask>") for line in lines]


@pytest.fixture(scope="module")
def printed_by(raw, run, tmp_path_factory):
    """The folder, and what the command printed."""
    folder = tmp_path_factory.mktemp("prepared") / "my data"
    process = run(
        "tupe-prepare-pretrain", "--input", raw / "one.txt", raw / "two.txt", *VOCABULARY,
        "--output-dir", folder, "--workers", 1, "--tokens-per-sample", 128,
        "--valid-fraction", 0.1, "--test-fraction", 0.1,
    )  # fmt: skip
    return folder, process.stdout


@pytest.fixture(scope="module")
def prepared(printed_by):
    return printed_by[0]


def test_the_printed_training_runs(printed_by, run, tmp_path):
    folder, printed = printed_by
    words = shlex.split(printed[printed.index("fairseq-train ") :].replace("\\\n", ""))
    assert words[:2] == ["fairseq-train", str(folder)]
    run(*words, *SIZE, "--max-update", 1, "--cpu", "--num-workers", 0, "--data-buffer-size", 0,
        "--no-save", cwd=tmp_path)  # fmt: skip


def test_files(prepared):
    names = ["dict.txt", "report.json", "sentencepiece.bpe.model", "steps.json"]
    names += [f"{split}.{kind}" for split in ("train", "valid", "test") for kind in ("bin", "idx")]
    assert sorted(path.name for path in prepared.iterdir()) == sorted(names)


def test_every_line_is_there_once(prepared, raw):
    found = [raw_text.decoded(prepared, split) for split in ("train", "valid", "test")]
    lines = [line for split in found for line in split if line]
    whole = expected_lines(raw)
    # the one long line is cut into pieces, between words or within
    long = [line for line in whole if len(line) > 1000]
    assert len(long) == 1
    parts = [line for line in lines if line not in whole]
    assert 2 < len(parts) and "".join(parts).replace(" ", "") == long[0].replace(" ", "")
    assert sorted(set(lines) - set(parts)) == sorted(set(whole) - set(long))
    assert len(lines) - len(parts) == len(whole) - 1
    train, valid, test = (set(split) - {""} - set(parts) for split in found)
    assert not train & valid and not train & test and not valid & test


def test_documents_are_kept(prepared, raw):
    """A document's lines follow each other, and an empty sentence stands between documents."""
    text = "\n".join(raw_text.decoded(prepared, "valid"))
    documents = text.split("\n\n")
    originals = "\n\n".join(
        (raw / name).read_text(errors="replace") for name in ("one.txt", "two.txt")
    )
    assert len(documents) > 3
    assert sum(document in originals for document in documents) >= len(documents) - 1


def test_report(prepared, raw):
    report = report_of(prepared)
    raw_lines = [
        line for name in ("one.txt", "two.txt") for line in (raw / name).read_bytes().split(b"\n")
    ]
    lines, dropped = report["lines"], report["dropped"]
    assert lines["read"] == sum(map(bool, raw_lines))
    assert dropped["invalid_utf8"] == 1
    assert dropped["duplicate"] == lines["read"] - 1 - len(expected_lines(raw)) > 5
    found = {}
    for split in ("train", "valid", "test"):
        ids, dictionary = raw_text.sentences(prepared, split)
        blank = sum(len(sentence) == 1 for sentence in ids)
        found[split] = len(ids) - blank
        assert lines[split] == found[split]
        assert report["documents"][split] == blank + 1
        assert report["tokens"][split] == sum(len(sentence) - 1 for sentence in ids)
        unknown = sum(sentence.count(dictionary.unk()) for sentence in ids)
        assert report["unknown_rate"][split] == unknown / report["tokens"][split] == 0
        assert max(map(len, ids)) <= 127  # with <s>, what fits into 128
    dropped = sum(dropped.values())
    assert lines["read"] + lines["cut"] - dropped == sum(found.values())
    assert report["text_treatment"] == {"unicode": "NFC", "lowercase": False}
    assert report["vocabulary"]["dictionary"] == report["vocabulary"]["pieces"] == 120


def test_vocabulary(prepared):
    model = sentencepiece.SentencePieceProcessor(str(prepared / "sentencepiece.bpe.model"))
    assert [model.id_to_piece(i) for i in range(5)] == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    _, dictionary = raw_text.sentences(prepared)
    assert len(model) == 120 and len(dictionary) == 119
    dictionary.add_symbol("<mask>")
    assert len(dictionary) == 120
    assert all(model.id_to_piece(i) in dictionary for i in range(120))


def test_symbols_in_the_text_are_harmless(prepared):
    for split in ("train", "valid", "test"):
        ids, dictionary = raw_text.sentences(prepared, split)
        special = {dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk()}
        assert not any(special & set(sentence[:-1]) for sentence in ids)
    everything = sum((raw_text.decoded(prepared, s) for s in ("train", "valid", "test")), [])
    found = [line for line in everything if line.startswith(SYMBOLS.replace("<mask>", "< mask>"))]
    assert len(found) == 14


@pytest.fixture(scope="module")
def sharded(raw, tmp_path_factory):
    """Shards, bpe, lower case, joined lines, a separate valid file that train contains, too."""
    folder = tmp_path_factory.mktemp("sharded")
    valid = raw_text.documents(150)[10:14]
    raw_text.write(folder / "valid.txt", valid)
    prepare(
        "--input", raw / "one.txt", raw / "two.txt", *VOCABULARY, "--output-dir", folder / "data",
        "--workers", 1, "--valid-input", folder / "valid.txt", "--test-fraction", 0,
        "--shards", 2, "--model-type", "bpe", "--lowercase", "--join-short", 30,
    )  # fmt: skip
    return folder / "data", {line for document in valid for line in document}


def test_shards_hold_everything_once(sharded, raw):
    folder, valid = sharded
    shards = [folder / "shard0", folder / "shard1"]
    text = [" ".join(filter(None, raw_text.decoded(shard))) for shard in shards]
    assert min(map(len, text)) > 0.3 * max(map(len, text))
    expected = [line.lower() for line in expected_lines(raw) if line not in valid]
    for line in expected:
        assert sum(other.count(line) for other in text) >= 1, line
    assert sum(map(len, text)) == sum(map(len, expected)) + len(expected) - 2
    for shard in shards:
        # joining put the valid lines together, too
        held_out = " ".join(raw_text.decoded(shard, "valid"))
        assert sorted(held_out.split()) == sorted(" ".join(valid).lower().split())
        assert (shard / "dict.txt").read_bytes() == (folder / "dict.txt").read_bytes()
    report = report_of(folder)
    assert report["lines"]["joined"] > 20
    tokens = [sum(len(s) - 1 for s in raw_text.sentences(shard)[0]) for shard in shards]
    assert report["tokens"]["train"] == sum(tokens)
    assert report["vocabulary"]["type"] == "bpe"


@pytest.mark.parametrize("shards", [1, 2], ids=["one-folder", "shards"])
def test_training(shards, prepared, sharded, tmp_path):
    folders = [prepared] if shards == 1 else [sharded[0] / "shard0", sharded[0] / "shard1"]
    data = ":".join(map(str, folders))
    process = pretrain(data, tmp_path, "--max-update", 2, "--no-save")
    assert len(losses(process)) == 2


def test_lower_case_is_in_the_vocabulary(sharded):
    model = sentencepiece.SentencePieceProcessor(str(sharded[0] / "sentencepiece.bpe.model"))
    assert model.encode("Qua BA") == model.encode("qua ba")


def test_each_split_gets_its_share(tmp_path):
    """By a hash, so within what so many draws may differ."""
    documents = [[f"{a} {b} {n}"] for n, (a, b) in enumerate(zip("abcd" * 500, "efghi" * 400))]
    raw_text.write(tmp_path / "text", documents)
    prepare(
        "--input", tmp_path / "text", "--output-dir", tmp_path / "data", "--workers", 1,
        "--vocab-size", 40, "--character-coverage", 1, "--valid-fraction", 0.2,
        "--test-fraction", 0.3,
    )  # fmt: skip
    lines = report_of(tmp_path / "data")["documents"]
    assert sum(lines[split] for split in ("train", "valid", "test")) == 2000
    for split, share in (("valid", 0.2), ("test", 0.3), ("train", 0.5)):
        # five standard deviations
        assert abs(lines[split] - 2000 * share) < 5 * (2000 * share * (1 - share)) ** 0.5


def test_few_documents_of_which_the_longest_would_not_be_trained_on(tmp_path):
    """The hash gives it to valid; the last lines are held out instead."""
    first = next(
        line
        for line in (f"ba {number}" for number in range(1000))
        if int.from_bytes(line_hash(line.encode()), "little") < 0.2 * 2**64
    )
    documents = [[first, *(f"qua {n}" for n in range(59))], *([f"{n} fe"] for n in range(40))]
    raw_text.write(tmp_path / "text", documents)
    prepare(
        "--input", tmp_path / "text", "--output-dir", tmp_path / "data", "--workers", 1,
        "--vocab-size", 25, "--character-coverage", 1, "--valid-fraction", 0.2,
        "--test-fraction", 0.1,
    )  # fmt: skip
    found = {
        split: list(filter(None, raw_text.decoded(tmp_path / "data", split)))
        for split in ("train", "test", "valid")
    }
    assert [len(lines) for lines in found.values()] == [70, 10, 20]
    assert sum(found.values(), []) == sum(documents, [])


def test_a_given_model_of_another_text(prepared, raw, tmp_path, capsys):
    """Unknown pieces are counted, and the dictionary is the given model's."""
    text = tmp_path / "text"
    raw_text.write(text, [["ba bé 日本", "ci dö 中", "du fa", "fe gi"]])
    prepare(
        "--input", text, "--sentencepiece-model", prepared / "sentencepiece.bpe.model",
        "--output-dir", tmp_path / "data", "--workers", 1, "--valid-fraction", 0.1,
    )  # fmt: skip
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        assert (tmp_path / "data" / name).read_bytes() == (prepared / name).read_bytes()
    report = report_of(tmp_path / "data")
    # one document: its last lines are valid and test
    assert [report["lines"][split] for split in ("train", "valid", "test")] == [2, 1, 1]
    assert report["unknown_rate"]["train"] == 2 / report["tokens"]["train"]
    assert report["unknown_rate"]["valid"] == 0
    assert report["vocabulary"]["type"] == "given"
