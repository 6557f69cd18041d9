"""Rows in blocks: whether a loop takes them so, and which of them may be played together."""
