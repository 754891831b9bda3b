"""The kinds of input, one file each; every kind gives the same cases for the same seed."""
