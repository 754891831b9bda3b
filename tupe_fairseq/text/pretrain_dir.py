"""What fine-tuning data inherits from the pre-training data: vocabulary and text treatment."""

import os

from tupe_fairseq.files.atomic import read_json
from tupe_fairseq.files.fingerprint import file_sha256
from tupe_fairseq.files.names import DICTIONARY, REPORT, SENTENCEPIECE_MODEL
from tupe_fairseq.text.dictionary_file import listed_words
from tupe_fairseq.text.pieces import Pieces
from tupe_fairseq.text.treatment import TextTreatment


class PretrainDir:
    """A folder made by tupe-prepare-pretrain.

    Args:
        folder (str): the folder; only its dict.txt, SentencePiece model
            and report.json are read.
    Raises:
        OSError: if one of the three is missing.
        ValueError: if one of them is broken, or dict.txt does not belong to this model.
    """

    def __init__(self, folder: str):
        self.dictionary, self.model, report = (
            os.path.join(folder, name) for name in (DICTIONARY, SENTENCEPIECE_MODEL, REPORT)
        )
        for path in (self.dictionary, self.model, report):
            if not os.path.isfile(path):
                raise FileNotFoundError(
                    f"{path} is missing; --pretrain-dir is a folder made by tupe-prepare-pretrain"
                )
        content = read_json(report)
        recorded = content.get("text_treatment") if isinstance(content, dict) else None
        if not isinstance(recorded, dict):
            raise ValueError(
                f"{report} does not say how the text was treated (text_treatment); make the folder "
                "with tupe-prepare-pretrain"
            )
        self.treatment = TextTreatment.from_dict(recorded)
        settings = content.get("settings")
        # the longest sample that the model was trained on, if it is recorded
        self.tokens_per_sample = (
            settings.get("tokens_per_sample") if isinstance(settings, dict) else None
        )
        self.pieces = Pieces(self.model)
        self._check_dictionary()
        self.vocabulary = file_sha256(self.dictionary)

    def _check_dictionary(self) -> None:
        """Check that both have the same words: one more would shift the ids of all later ones."""
        listed = listed_words(self.dictionary)
        words = list(self.pieces.words())
        if sorted(listed) != sorted(words):
            absent, other = sorted(set(words) - set(listed)), sorted(set(listed) - set(words))
            raise ValueError(
                f"{self.dictionary} does not belong to {self.model}: it lists {len(listed)} words, "
                f"the model {len(words)}; missing {absent[:3]}, unknown to the model {other[:3]}"
            )
