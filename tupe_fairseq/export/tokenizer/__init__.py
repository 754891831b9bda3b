"""Fast tokenizers of the ``tokenizers`` library, which give the ids that fairseq's hub gives."""
