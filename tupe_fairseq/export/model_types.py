"""The values of ``model_type`` in the config.json of a model folder."""

#: with the code that the folder holds
MODEL_TYPE = "tupe"
#: transformers' own
ROBERTA = "roberta"
MODEL_TYPES = (MODEL_TYPE, ROBERTA)
