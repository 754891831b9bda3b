"""Turns sentences into pieces, cleaned like the text that a model was trained on."""

import os
from typing import Any

from tupe_fairseq.files.atomic import read_json
from tupe_fairseq.files.names import REPORT, SENTENCEPIECE_MODEL
from tupe_fairseq.text.foreign_vocabulary import ForeignVocabulary, is_recorded
from tupe_fairseq.text.pieces import Pieces
from tupe_fairseq.text.treatment import AsItIs, TextTreatment


class ToPieces:
    """Turns text into pieces, after the clean-up that the training text had.

    Args:
        data (str): the data folder, whose report.json, if any, records the clean-up.
        folder (str): the checkpoint's folder.
        model (str, optional): the SentencePiece model; the vocabulary of ``data`` or ``folder`` if
            None.
    Raises:
        OSError: if there is no vocabulary.
        ValueError: if the vocabulary or the record of the clean-up cannot be used.
    """

    def __init__(self, data: str, folder: str, model: str | None = None):
        places = list(dict.fromkeys([data, folder]))
        recorded = next(filter(is_recorded, places), None)
        if model is None and recorded is not None:
            foreign = ForeignVocabulary(recorded)
            self._pieces: Any = foreign.pieces
            self._treatment: Any = foreign.treatment
            return
        if model is None:
            candidates = [os.path.join(place, SENTENCEPIECE_MODEL) for place in places]
            model = next(filter(os.path.isfile, candidates), None)
            if model is None:
                raise FileNotFoundError(
                    f"{' and '.join(candidates)} are missing; to split text into "
                    "pieces, give --sentencepiece-model"
                )
        self._pieces = Pieces(model)
        self._treatment = recorded_treatment(data) or TextTreatment()

    def __call__(self, line: str) -> str:
        """Pieces separated by spaces, a line for fairseq's dictionary; may be empty."""
        return self._pieces.to_text(self._pieces.encode([self._treatment.apply(line)])[0])


def recorded_treatment(data: str) -> Any | None:
    """What a data folder's report.json says was done to its text; None if nothing does.

    Raises:
        ValueError: if the report cannot be read, or is of a version that treats text differently.
    """
    report = os.path.join(data, REPORT)
    if os.path.isfile(report):
        content = read_json(report)
        recorded = content.get("text_treatment") if isinstance(content, dict) else None
        if recorded == AsItIs().to_dict():
            return AsItIs()
        if isinstance(recorded, dict):
            return TextTreatment.from_dict(recorded, report)
    return None
