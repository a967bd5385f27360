"""Numbers of things."""

import numpy as np
import pytest

from vpintegrator.arguments import whole_number
from vpintegrator.errors import InputError


@pytest.mark.parametrize("value", [3, 3.0, np.int32(3), np.float64(3)])
def test_numbers_of_things(value):
    found = whole_number("steps", value, 1)
    assert (found, type(found)) == (3, int)


@pytest.mark.parametrize("value", [0, 2.5, True, "3", None, np.nan])
def test_what_is_no_number_of_things(value):
    with pytest.raises(InputError, match=r"^steps = .* must be a whole number, 1 to "):
        whole_number("steps", value, 1)
