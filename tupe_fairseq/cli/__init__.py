"""The commands, one file each: flags, checks and main()."""
