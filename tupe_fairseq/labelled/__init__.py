"""Moved to data/; what is left here is for importers that have not moved yet."""
