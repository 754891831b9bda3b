"""The flags of the console scripts, a file each, and flags that several share.

A command answers --help and refuses wrong flags before it imports what takes seconds, so nothing
here imports more than Python itself.
"""
