"""The console scripts, one file each: what they do once their flags are read."""
