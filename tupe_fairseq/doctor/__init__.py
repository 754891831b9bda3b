"""Looks for what is wrong: with what is installed, and with files that are to be used together.

Nothing heavy is imported before it has been checked.
"""
