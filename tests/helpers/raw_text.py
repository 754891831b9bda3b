"""Made-up raw text, and reading prepared data back."""

import random

import sentencepiece
from fairseq.data import Dictionary, data_utils

SYLLABLES = "ba bé ci dö du fa fe gi ho ju ka lo mi na ñu or pe qua ri sto tu vi".split()


def documents(number, seed=3, lines=6):
    """Lists of lines of made-up words, most of them different."""
    random_ = random.Random(seed)

    def word():
        return "".join(random_.choices(SYLLABLES, k=random_.randint(1, 3)))

    words = [word() for _ in range(400)]

    def line():
        return " ".join(random_.choices(words, k=random_.randint(2, 12))).capitalize() + "."

    return [[line() for _ in range(random_.randint(1, lines))] for _ in range(number)]


def write(path, text_documents):
    path.write_text("\n\n".join("\n".join(lines) for lines in text_documents) + "\n", "utf-8")
    return path


def sentences(folder, split="train"):
    """The token ids of every sentence of a data folder, by fairseq's own reader."""
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    data = data_utils.load_indexed_dataset(str(folder / split), dictionary, "mmap")
    return [data[i].tolist() for i in range(len(data))], dictionary


def decoded(folder, split="train"):
    """The text of a data folder by SentencePiece: lines, an empty one between documents."""
    ids, dictionary = sentences(folder, split)
    model = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    assert all(sentence[-1] == dictionary.eos() for sentence in ids)
    return [model.decode([dictionary[i] for i in sentence[:-1]]) for sentence in ids]


def contents(folder):
    """Every file of a folder and its bytes, but not settings.json, which records input times."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.name != "settings.json"
    }
