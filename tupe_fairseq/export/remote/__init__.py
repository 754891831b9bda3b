"""What a model folder's files hold in addition to the model itself: the classes of transformers.

:mod:`tupe_fairseq.export.bundle` makes the files.
"""
