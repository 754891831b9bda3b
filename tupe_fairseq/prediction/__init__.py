"""Texts of any number through a trained model, in bounded memory and in their order.

``text_sequences`` makes token ids of texts, ``batched_encoder`` runs them in batches of similar
length, ``row_predictions`` says what a head's outputs mean for a kind of task and ``predictor``
joins the three; ``tagger`` does so for the words of sentences, ``embedder`` for one vector of each
text, which a ``vector_file`` has.  ``row_chunks`` reads the texts of files, ``shared_work`` does
the chunks on several GPUs.
"""
