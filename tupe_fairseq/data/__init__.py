"""From files to what fairseq loads."""
