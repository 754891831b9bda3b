"""How good a fine-tuned model is on labelled rows."""
