"""Labelled rows: your own files and GLUE's as tasks, and the folders that fairseq reads."""
