"""What a model folder is tried with; none of it imports fairseq or this project."""
