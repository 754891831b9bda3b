"""The dictionary comes back from the tokenizer that was made of it, of whatever kind."""

import json

import pytest

from helpers.exporting import write_vocabulary
from helpers.vocabularies import write_authors, write_gpt2
from tupe_fairseq.checkpoint.state_dict import symbols_of
from tupe_fairseq.export.folder_symbols import tokenizer_lines
from tupe_fairseq.export.tokenizer.build_tokenizer import build_tokenizer
from tupe_fairseq.export.tokenizer.tokenizer_files import count_unlisted

SYMBOLS_OF_AUTHORS = ["<file> 0", "<email> 0", "<url> 0"]


@pytest.mark.parametrize("kind", ["fastbpe", "gpt2", "sentencepiece"])
def test_there_and_back(kind, tmp_path):
    numbers = None
    if kind == "sentencepiece":
        folder = write_vocabulary(tmp_path / "data")
        lines, paths = (folder / "dict.txt").read_text(), [folder / "sentencepiece.bpe.model"]
    elif kind == "fastbpe":
        write_authors(tmp_path)
        lines, paths = (tmp_path / "theirs.txt").read_text(), [tmp_path / "bpe-code"]
        lines = "\n".join([*SYMBOLS_OF_AUTHORS, lines])
    else:
        write_gpt2(tmp_path)
        lines = (tmp_path / "theirs.txt").read_text()
        paths = [tmp_path / "encoder.json", tmp_path / "vocab.bpe"]
        numbers = json.loads(paths[0].read_text())
    lines = lines.splitlines()[:-2] + ["madeupword0000 0", "madeupword0001 0"]
    symbols = symbols_of(lines)
    # these small dictionaries lack some of the pieces, which then follow
    files = build_tokenizer(kind, list(map(str, paths)), symbols, 16, True, unlisted=True)
    (tmp_path / "tokenizer.json").write_text(files["tokenizer.json"])
    unlisted = count_unlisted(files)
    assert (unlisted > 0) == (kind != "gpt2")
    assert symbols_of(tokenizer_lines(str(tmp_path), numbers, unlisted)) == symbols
