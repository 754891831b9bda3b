"""Importing this module imports fairseq, or says what to install if it is missing.

Parts that build on fairseq import it here first: the package then registers all of them, which must
not happen while one of them is half imported.
"""

import fairseq  # noqa: F401
