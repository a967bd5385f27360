import pytest

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
