"""What fairseq's masked_lm needs for --mask-whole-words: which pieces begin a word.

The task asks for it with ``self.args``, which it does not have, in 0.12.2 and in the main branch,
so that the flag ends every run with an AttributeError.  The model, which is built before data are
loaded, gives it some.
"""

import os
from typing import Any

from fairseq.registry import REGISTRIES
from fairseq.utils import safe_getattr, split_paths
from omegaconf import OmegaConf

from tupe_fairseq.files.names import DICTIONARY
from tupe_fairseq.text.found_vocabulary import find_vocabulary

# kinds of vocabulary that are also fairseq's --bpe, and the options that name their files
_OPTIONS = {
    "sentencepiece": ("sentencepiece_model",),
    "gpt2": ("gpt2_encoder_json", "gpt2_vocab_bpe"),
}
_CHOICES = (
    "--bpe sentencepiece --sentencepiece-model FILE, or --bpe gpt2 --gpt2-encoder-json FILE "
    "--gpt2-vocab-bpe FILE"
)


_TELLS = "is_beginning_of_word"


class VocabularyOfData:
    """Options of ``--bpe`` for the vocabulary in a data folder.

    Looked for when ``bpe`` is asked for, which only loading data does: a model that was trained
    with whole words is used without.

    Args:
        data (str): the folders, separated by colons; the first counts.
    """

    def __init__(self, data: str):
        self._folder = split_paths(data)[0]

    @property
    def bpe(self) -> str:
        """fairseq's name for the vocabulary; sets the options of its files.

        Raises:
            FileNotFoundError: if there is none.
            ValueError: if it does not fit dict.txt, or is of a kind whose pieces do not tell.
        """
        dictionary = os.path.join(self._folder, DICTIONARY)
        try:
            kind, paths, _ = find_vocabulary([self._folder], dictionary, _CHOICES)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                "--mask-whole-words must know which pieces begin a word, but there is no "
                f"vocabulary in {self._folder}; give {_CHOICES}"
            ) from error
        if kind not in _OPTIONS:
            raise ValueError(
                f"--mask-whole-words does not work with the vocabulary in {self._folder}: a piece "
                f"of {kind} tells whether the word goes on after it, not whether it begins one; "
                "drop the flag"
            )
        for name, path in zip(_OPTIONS[kind], paths.values()):
            setattr(self, name, path)
        return kind


def give_word_beginnings(task: Any, task_config: Any, args: Any) -> None:
    """Give the task of a model the options of ``--bpe``, if it masks whole words.

    Args:
        task (FairseqTask): the task.
        task_config (Namespace or DictConfig): its options.
        args (Namespace or DictConfig): the model's options: all flags, or a part of the config.
    Raises:
        ValueError: if ``--bpe`` names an encoding that does not tell.
    """
    if not safe_getattr(task_config, "mask_whole_words") or hasattr(task, "args"):
        return
    given = args
    if OmegaConf.is_config(args):
        given = safe_getattr(args._get_parent(), "bpe")
        name = None if given is None else safe_getattr(given, "_name")
    else:
        name = safe_getattr(args, "bpe")
    if name is None or safe_getattr(given, "sentencepiece_model") == "???":
        task.args = VocabularyOfData(task_config.data)
        return
    known = REGISTRIES["bpe"]["registry"]
    if not hasattr(known.get(name), _TELLS):
        able = [name for name, encoding in known.items() if hasattr(encoding, _TELLS)]
        raise ValueError(
            f"--mask-whole-words does not work with --bpe {name}, which does not tell which pieces "
            f"begin a word; give one of {', '.join(sorted(able))}, or drop --bpe for the "
            "vocabulary in the data folder"
        )
    task.args = given
