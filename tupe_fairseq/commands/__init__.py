"""The console scripts, one file each."""

import logging

# fairseq's first line on every import advises to install a package that nobody needs here
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
