"""The one exception that stands for a mistake in what the user gave."""


class InputError(ValueError):
    """Something the user gave is wrong: a file, a name, a number, an option.

    The message is one sentence that says what is wrong, where, and what to do. The commands print
    it and exit with code 2; in Python it is a ``ValueError``.
    """
