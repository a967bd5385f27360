"""Systems and maps that are given as Python functions: recorded as formulas, or called."""
