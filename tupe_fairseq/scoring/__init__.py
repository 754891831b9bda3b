"""Pseudo-log-likelihoods of sentences, and the share of minimal pairs that they rank right."""
