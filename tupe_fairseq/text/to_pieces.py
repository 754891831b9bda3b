"""Turns sentences into pieces, cleaned like the text that a model was trained on."""

import os
from typing import Optional

from tupe_fairseq.files.atomic import read_json
from tupe_fairseq.files.names import REPORT, SENTENCEPIECE_MODEL
from tupe_fairseq.text.pieces import Pieces
from tupe_fairseq.text.treatment import TextTreatment


class ToPieces:
    """Turns text into pieces, after the clean-up that the training text had.

    Args:
        data (str): the data folder, whose report.json, if any, records the clean-up.
        folder (str): the checkpoint's folder.
        model (str, optional): the SentencePiece model; that of ``data`` or ``folder`` if None.
    Raises:
        OSError: if there is no SentencePiece model.
        ValueError: if the model or the record of the clean-up cannot be used.
    """

    def __init__(self, data: str, folder: str, model: Optional[str] = None):
        if model is None:
            candidates = [os.path.join(place, SENTENCEPIECE_MODEL) for place in (data, folder)]
            model = next(filter(os.path.isfile, candidates), None)
            if model is None:
                raise FileNotFoundError(
                    f"{' and '.join(dict.fromkeys(candidates))} are missing; to split text into "
                    "pieces, give --sentencepiece-model"
                )
        self._pieces = Pieces(model)
        self._treatment = TextTreatment()
        report = os.path.join(data, REPORT)
        if os.path.isfile(report):
            content = read_json(report)
            recorded = content.get("text_treatment") if isinstance(content, dict) else None
            if isinstance(recorded, dict):
                self._treatment = TextTreatment.from_dict(recorded)

    def __call__(self, line: str) -> str:
        """Pieces separated by spaces, a line for fairseq's dictionary; may be empty."""
        return self._pieces.to_text(self._pieces.encode([self._treatment.apply(line)])[0])
