"""Comparing position encodings with everything else equal: runs, statistics, figures."""
