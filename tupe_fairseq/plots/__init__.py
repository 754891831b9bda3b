"""Pictures of what positions do in a trained encoder; importing this needs no matplotlib.

Each file is one figure: ``measure`` computes what is to be seen, with torch alone, for one model;
``draw`` makes the figure of the measurements of one or several models, by label.
"""
