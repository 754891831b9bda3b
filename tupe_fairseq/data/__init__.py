"""Turns files into the data that fairseq loads."""
