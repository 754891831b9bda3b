"""What fine-tuning data inherits from pre-training: the vocabulary and the text treatment."""

import os
from typing import Any

from tupe_fairseq.files.atomic import read_json
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.names import DICTIONARY, REPORT, SENTENCEPIECE_MODEL, VOCABULARY
from tupe_fairseq.text.dictionary_file import listed_words
from tupe_fairseq.text.foreign_vocabulary import ForeignVocabulary, is_recorded
from tupe_fairseq.text.pieces import Pieces
from tupe_fairseq.text.treatment import TextTreatment


def check_is_pretrained(folder: str) -> None:
    """Refuse a folder that lacks what :class:`PretrainDir` needs, whatever is in its files.

    Raises:
        FileNotFoundError: if a file is missing.
    """
    if is_recorded(folder):  # it says itself which files it needs
        return
    for path in (os.path.join(folder, name) for name in (DICTIONARY, SENTENCEPIECE_MODEL, REPORT)):
        if not os.path.isfile(path):
            raise FileNotFoundError(
                f"{path} is missing; --pretrain-dir is a folder made by tupe-prepare-pretrain, "
                f"or by tupe-convert with the files of a vocabulary ({VOCABULARY})"
            )


class PretrainDir:
    """A folder made by tupe-prepare-pretrain, or by tupe-convert with a vocabulary.

    ``pieces`` and ``treatment`` make pieces of text, ``dictionary`` is dict.txt, ``vocabulary`` its
    hash, ``kind`` what splits the text, ``files`` all further files of the vocabulary, by what they
    are called in the record of what was made with them, and ``tokens_per_sample`` the longest
    sample that the model was trained on, None if it is not recorded.

    Args:
        folder (str): the folder; only dict.txt, report.json and the files of the vocabulary are
            read.
    Raises:
        OSError: if one of them is missing.
        ValueError: if one of them is broken, or dict.txt does not belong to the vocabulary.
    """

    def __init__(self, folder: str):
        check_is_pretrained(folder)
        self.dictionary = os.path.join(folder, DICTIONARY)
        report = os.path.join(folder, REPORT)
        if is_recorded(folder):
            foreign = ForeignVocabulary(folder)
            self.kind, self.files = foreign.kind, foreign.files
            self.pieces: Any = foreign.pieces
            self.treatment: Any = foreign.treatment
            self.tokens_per_sample = foreign.max_positions
            if os.path.isfile(report):  # the data may have been made for a shorter model
                self.tokens_per_sample = _tokens_per_sample(report) or foreign.max_positions
        else:
            self._read_own(folder, report)
        self.vocabulary = file_sha256(self.dictionary)

    def _read_own(self, folder: str, report: str) -> None:
        model = os.path.join(folder, SENTENCEPIECE_MODEL)
        content = read_json(report)
        recorded = content.get("text_treatment") if isinstance(content, dict) else None
        if not isinstance(recorded, dict):
            raise ValueError(
                f"{report} does not say how the text was treated (text_treatment); make the folder "
                "with tupe-prepare-pretrain"
            )
        self.kind, self.files = "sentencepiece", {"sentencepiece model": model}
        self.treatment = TextTreatment.from_dict(recorded, report)
        self.tokens_per_sample = _tokens_per_sample(report)
        self.pieces = Pieces(model)
        self._check_dictionary(model)

    def _check_dictionary(self, model: str) -> None:
        """Check that both have the same words: one more would shift the ids of all later ones."""
        listed = listed_words(self.dictionary)
        words = list(self.pieces.words())
        if sorted(listed) != sorted(words):
            absent, other = sorted(set(words) - set(listed)), sorted(set(listed) - set(words))
            raise ValueError(
                f"{self.dictionary} does not belong to {model}: it lists {len(listed)} words, "
                f"the model {len(words)}; missing {absent[:3]}, unknown to the model {other[:3]}"
            )


def _tokens_per_sample(report: str):
    content: dict[str, Any] = read_json(report)
    settings = content.get("settings") if isinstance(content, dict) else None
    return settings.get("tokens_per_sample") if isinstance(settings, dict) else None
