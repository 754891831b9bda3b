"""Trained models used from Python: ``hub`` needs fairseq, the rest only torch."""
