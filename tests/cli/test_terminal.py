"""What commands print is text: nothing in a file steers the reader's terminal."""

import click

from tests.cli.conftest import refused
from vpintegrator.cli.common import console, plain_errors, progress_bar
from vpintegrator.errors import InputError

NASTY = "[/b] [link=x] :smile: \x1b[2J \x9b31m \u202e \ud800 end"


def test_a_title_is_printed_as_it_is(capsys):
    from rich.table import Table

    table = Table(NASTY, title=NASTY)
    table.add_row(NASTY)
    out = console()
    out.print(NASTY, style="bold", soft_wrap=True)
    out.print(table, width=400)
    with progress_bar() as bar:
        bar.add_task(NASTY, total=1)
    text = capsys.readouterr().out
    assert text.count("[/b] [link=x] :smile: \\x1b[2J") == 4
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "\u202e" not in text


def test_an_error_that_quotes_a_file_is_printed_as_it_is(run):
    @click.command
    @plain_errors
    def command():
        raise InputError(f"found {NASTY}")

    assert refused(run(command), "[/b] [link=x] :smile:")
    assert "\x1b" not in run(command).output
