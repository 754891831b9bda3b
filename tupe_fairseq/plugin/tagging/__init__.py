"""Task, criterion and head for tags of words."""
