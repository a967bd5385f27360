"""Kinds of maps that ``vp.fit`` tries, each in one file."""
