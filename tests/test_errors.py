"""The sentences that users read stay sentences, whatever a file holds."""

import hypothesis.strategies as st
from hypothesis import given

from vpintegrator.errors import InputError, printable


@given(st.text(max_size=80))
def test_no_message_holds_what_a_terminal_obeys(text):
    message = str(InputError(f"model.safetensors holds the title {text}"))
    assert message.isprintable()
    assert message.startswith("model.safetensors")


def test_long_quotations_are_cut_in_the_middle():
    message = str(InputError("data.h5 holds " + "x" * 10**6 + "; make it anew"))
    assert len(message) <= 1500
    assert message.startswith("data.h5 holds x")
    assert message.endswith("x; make it anew")


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), max_size=80))
def test_what_can_be_printed_stays_as_it_is(text):
    assert printable(text) == text
