"""What is learned from labelled texts: the description of a task, its labels and its metrics."""
