import pytest

from vpintegrator.errors import InputError
from vpintegrator.nn.split import as_blocks, parse_split


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("coordinates", [[0], [1], [2], [3]]),
        ("halves", [[0, 1], [2, 3]]),
        ("0,1|2|3", [[0, 1], [2], [3]]),
        (" 3, 0 | 1-2 ", [[3, 0], [1, 2]]),
    ],
)
def test_blocks_written_as_text(text, blocks):
    assert as_blocks(parse_split(text), 4) == blocks


@pytest.mark.parametrize("text", ["", "thirds", "0,1|", "0;1", "0,-1", "0-1-2|3", "٣|1", "1" * 9])
def test_texts_that_are_no_blocks(text):
    with pytest.raises(InputError, match=r"0,1\|2"):
        parse_split(text)


@pytest.mark.parametrize("text", ["0|1", "0,0|1-3", "0-3", "3-2|0,1,2,3"])
def test_blocks_that_are_no_partition(text):
    with pytest.raises(InputError):
        as_blocks(parse_split(text), 4)
