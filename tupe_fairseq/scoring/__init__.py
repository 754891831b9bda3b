"""Pseudo-log-likelihoods of sentences, and what share of minimal pairs they rank right."""
