"""The Transformer: attention, feed-forward layers, pooling. Positions come with the attention."""
