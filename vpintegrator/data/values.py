"""What counts as a number in a recipe."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def is_number(value: Any) -> bool:
    """Whether this is one finite real number; true and false are none."""
    real = isinstance(value, int | float | np.integer | np.floating)
    # a whole number of Python may be too large to become a float
    return real and not isinstance(value, bool) and bool(abs(value) <= sys.float_info.max)
