"""The figures of tupe-plot: ``measure`` gives a model's values, ``draw`` a figure of them."""
