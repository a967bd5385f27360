"""Claims of maps whose constants are decimals: checked to rounding, proposed where none is made."""

import warnings

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.errors import InputError

# cos and sin of 2 pi 0.2618, rounded to doubles: the determinant is 1 to 1e-16
C, S = float(np.cos(2 * np.pi * 0.2618)), float(np.sin(2 * np.pi * 0.2618))


def ring(claim="", c=C, s=S):
    return f"""
state = ["x", "px"]
{claim}
[map]
x = "{c!r}*x + {s!r}*(px - 0.1*x**2)"
px = "-{s!r}*x + {c!r}*(px - 0.1*x**2)"
"""


@pytest.mark.parametrize("claim", ["symplectic = true", "divergence_free = true"])
def test_a_claim_holds_to_the_rounding_of_decimals(claim):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        system = vp.load_system(ring(claim))
    assert system.divergence_free
    assert system.is_canonical == (claim == "symplectic = true")


def test_a_claim_that_fails_says_by_how_much_and_where():
    text = ring("symplectic = true", c=round(C, 6))
    with pytest.raises(InputError, match=r"the form dq dp is kept fails by \d.*e-\d+.* at x = "):
        vp.load_system(text)


def test_without_a_claim_the_result_is_told():
    message = r"preserves the symplectic form to \d.*e-1\d; say symplectic = true"
    with pytest.warns(UserWarning, match=message):
        system = vp.load_system(ring())
    assert not system.is_canonical
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vp.load_system(ring(c=0.8, s=0.6)).is_canonical  # exact
        assert not vp.load_system(ring(c=0.9)).divergence_free
        assert not vp.load_system(ring("symplectic = false")).is_canonical
