"""The Transformer: attention, feed-forward layers, pooling. The position bias is passed in."""
