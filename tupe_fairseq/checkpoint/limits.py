"""What a checkpoint may claim at most, so that nothing is built for hours from a small file."""

# far beyond any model
MOST_LAYERS = 1000
#: also of positions
WIDEST = 2**16
