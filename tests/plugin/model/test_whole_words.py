"""--mask-whole-words, which ends fairseq's masked_lm with an AttributeError, masks whole words."""

import shutil
from pathlib import Path

import pytest
from fairseq import options, tasks
from fairseq.data.encoders import build_bpe
from fairseq.data.encoders.utils import get_whole_word_mask

from helpers.running import USER_DIR
from helpers.vocabularies import convert, write_authors, write_gpt2
from tupe_fairseq import TupeRobertaModel

WRITTEN = Path(__file__).parents[2] / "compatibility" / "v0_1" / "data-bin"
MODEL = WRITTEN / "sentencepiece.bpe.model"
SIZES = [
    "--arch", "tupe_roberta_tiny", "--encoder-layers", 1, "--encoder-embed-dim", 8,
    "--encoder-attention-heads", 1, "--tokens-per-sample", 48, "--max-positions", 48,
    "--mask-whole-words", "--seed", 3,
]  # fmt: skip


def task_of(folder, *flags):
    """The task after fairseq-train has built the model with it."""
    words = [folder, "--user-dir", USER_DIR, "--task", "masked_lm", *SIZES, *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), [str(w) for w in words])
    task = tasks.setup_task(args)
    task.build_model(args)
    return task


@pytest.fixture
def data(tmp_path):
    return Path(shutil.copytree(WRITTEN, tmp_path / "data"))


def masked_words(task):
    """Of each sample, where words begin, and which pieces are to be predicted."""
    task.load_dataset("train")
    symbols = task.source_dictionary.symbols
    for sample in (task.datasets["train"][number] for number in range(40)):
        masked = sample["target"].ne(task.source_dictionary.pad())
        pieces = sample["net_input.src_tokens"].clone()
        pieces[masked] = sample["target"][masked]
        begins = [i < 4 or symbols[i].startswith("\u2581") for i in pieces.tolist()]
        yield begins, masked.tolist()


@pytest.mark.parametrize(
    "flags",
    [[], ["--bpe", "sentencepiece"], ["--bpe", "sentencepiece", "--sentencepiece-model", MODEL]],
    ids=lambda flags: " ".join(map(str, flags[:3:2])) or "the data's",
)
def test_words_are_masked_as_a_whole(flags, data):
    parts, long = 0, 0
    for begins, masked in masked_words(task_of(data, *flags)):
        for place in range(1, len(begins)):
            if not begins[place]:
                assert masked[place] == masked[place - 1]
                long += masked[place]
        parts += sum(masked)
    assert long > 20 and parts > long


def test_no_vocabulary_to_tell(data):
    task = task_of(data)
    (data / "sentencepiece.bpe.model").unlink()
    with pytest.raises(FileNotFoundError, match="there is no vocabulary in .*give --bpe sentence"):
        task.load_dataset("train")
    with pytest.raises(ValueError, match="--bpe characters.*give one of bert, .*sentencepiece"):
        task_of(data, "--bpe", "characters")


def test_vocabularies_of_other_programs(tmp_path):
    for write in (write_gpt2, write_authors):
        (tmp_path / write.__name__).mkdir()
        code, text = convert(write(tmp_path / write.__name__), tmp_path / write.__name__ / "out")
        assert code == 0, text
    task = task_of(tmp_path / "write_gpt2" / "out")
    dictionary = task.source_dictionary
    begins = get_whole_word_mask(task.args, dictionary).bool().tolist()
    encoding = build_bpe(task.args)
    words = [encoding.decode(symbol) for symbol in dictionary.symbols[4:-1] if symbol.isdigit()]
    assert begins[4 : 4 + len(words)] == [word.startswith(" ") for word in words]
    assert 0 < sum(begins[4:]) < len(words)
    task = task_of(tmp_path / "write_authors" / "out")
    with pytest.raises(ValueError, match="of fastbpe tells whether the word goes on after it"):
        get_whole_word_mask(task.args, task.source_dictionary)


def test_a_model_for_use_needs_no_vocabulary(tmp_path):
    shutil.copy(WRITTEN / "dict.txt", tmp_path)
    hub = TupeRobertaModel.from_pretrained(
        str(WRITTEN.parent), "official.pt", str(tmp_path), mask_whole_words=True
    )
    assert hub.task.cfg.mask_whole_words
