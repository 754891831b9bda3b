"""Trained models used from Python: ``predict`` through fairseq, the rest with torch alone."""
