"""The position encodings that --position-encoding names, one file each."""
