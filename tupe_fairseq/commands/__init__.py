"""The console scripts, one file each."""
