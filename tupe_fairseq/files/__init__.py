"""Files that are either complete or absent, even after an interruption or on a full disk."""
