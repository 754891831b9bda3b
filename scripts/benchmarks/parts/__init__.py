"""The parts of ``model.py``."""
