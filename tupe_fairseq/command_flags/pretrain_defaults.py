"""Defaults of tupe-prepare-pretrain that depend on other flags."""

#: Flags that have no effect with a given vocabulary. Their defaults are filled in later, so that a
#: given flag can be told from a default.
VOCABULARY_DEFAULTS = {
    "vocab_size": 32768,
    "model_type": "unigram",
    "character_coverage": 0.9995,
    "sample_mb": 64,
}
#: of the documents: valid, and test
FRACTION = 0.005
