"""The nine GLUE tasks: official files in, official submissions out."""
