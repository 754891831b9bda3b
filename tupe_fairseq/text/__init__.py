"""From raw text to pieces: clean-up, de-duplication, vocabulary, encoding, binary data."""
