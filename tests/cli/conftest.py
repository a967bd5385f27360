"""Running commands as a user does, and looking at what they print."""

import pytest
from click.testing import CliRunner


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Call a command in an empty folder: ``result = run(main, "a", "-o", "b")``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def call(command, *arguments):
        return CliRunner().invoke(command, [str(a) for a in arguments])

    return call


@pytest.fixture
def done(run):
    """Call a command that must succeed, and return what it printed on standard output."""

    def call(command, *arguments):
        result = run(command, *arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    return call


def refused(result, message):
    """Whether the command ended with exit code 2 and one sentence that holds ``message``."""
    lines = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert len(lines) == 1, result.output
    assert message in lines[0]
    return True
