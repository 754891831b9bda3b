"""The figures of tupe-plot, one file for each PNG.

``measure`` computes the values for one model, with torch alone; ``draw`` makes the figure
from the measurements of one or several models, by label, and imports matplotlib.
"""
