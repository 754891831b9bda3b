"""Sentences as token ids, from a text file or from the command line."""

import os
from typing import Optional

from tupe_fairseq.files.atomic import read_json
from tupe_fairseq.glue.pretrain_dir import MODEL, REPORT
from tupe_fairseq.text.pieces import Pieces
from tupe_fairseq.text.treatment import TextTreatment


class Splitter:
    """Text to pieces, after the clean-up that the training text had.

    Args:
        data (str): the data folder, whose report.json, if it is there, records the clean-up.
        folder (str): the checkpoint's folder.
        model (str, optional): the SentencePiece model; that of ``data`` or ``folder`` if None.
    Raises:
        OSError: if there is no SentencePiece model.
        ValueError: if the model or the record of the clean-up cannot be used.
    """

    def __init__(self, data: str, folder: str, model: Optional[str] = None):
        if model is None:
            candidates = [os.path.join(place, MODEL) for place in (data, folder)]
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

    def pieces(self, line: str) -> str:
        """Pieces with spaces between, as a line for fairseq's dictionary; may be empty."""
        return self._pieces.to_text(self._pieces.encode([self._treatment.apply(line)])[0])
