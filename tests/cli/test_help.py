"""Help pages: one screen each, groups of options, and nothing slow behind them."""

import importlib
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from vpintegrator.cli.command import COMMANDS, GROUPS, flags_of
from vpintegrator.cli.gen import main as gen
from vpintegrator.cli.plot import main as plot
from vpintegrator.cli.train import main as train

OPTIONS = {
    "vp-gen": 21,
    "vp-import": 13,
    "vp-show": 5,
    "vp-train": 27,
    "vp-rollout": 20,
    "vp-plot": 9,
    "vp-export": 6,
}
SHARED = ("-o, --output PATH", "--overwrite", "-q, --quiet", "--json", "-v, --verbose")


def loaded(name):
    return importlib.import_module(f"vpintegrator.cli.{COMMANDS[name][0]}").main


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_page_is_one_screen(name):
    command = loaded(name)
    lines = command.get_help(click.Context(command, info_name=name, terminal_width=100)).split("\n")
    assert len(lines) <= 60 and max(map(len, lines)) <= 100
    options = [parameter for parameter in command.params if hasattr(parameter, "group")]
    assert len(options) <= OPTIONS[name] and {each.group for each in options} <= {*GROUPS}
    for option in options:
        assert 5 < len(option.help) <= 80 and option.help.endswith((".", "]"))
        # flags and text stand in one line
        assert any(option.opts[-1] in line and option.help in line for line in lines)
    shared = [line.strip() for line in lines if line.strip().startswith(SHARED)]
    assert [line.split("  ")[0] for line in shared] == [*SHARED][: len(shared)]


def test_there_are_110_options_at_most():
    assert sum(len(loaded(name).params) for name in COMMANDS) <= 110 + 9 + len(COMMANDS)
    assert sum(OPTIONS.values()) <= 110


@pytest.mark.parametrize("name", COMMANDS)
def test_help_needs_nothing_slow(name):
    """``--help`` answers at once because torch, SymPy, SciPy and matplotlib are not imported."""
    code = (
        f"import sys; from vpintegrator.cli.{COMMANDS[name][0]} import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "slow = {'torch', 'sympy', 'scipy', 'matplotlib', 'numpy', 'h5py'} & set(sys.modules)\n"
        "assert not slow, slow"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "Usage:" in result.stdout


@pytest.mark.parametrize(
    ("command", "name", "option", "hint"),
    [
        (gen, "vp-gen", "--batch", "it is an option of vp-train"),
        (gen, "vp-gen", "--single-file", "in Python: vp.generate(..., single_file=...)"),
        (gen, "vp-gen", "--conut", "did you mean '--count'?"),
        (train, "vp-train", "--noise", "in Python: vp.train(..., noise=...)"),
        (train, "vp-train", "--degree", "type --set degree=VALUE"),
        (plot, "vp-plot", "--style", "in Python: vp.draw(..., style=...)"),
        (plot, "vp-plot", "--nothing", "vp-plot --help lists them"),
    ],
)
def test_an_option_of_another_place_names_it(command, name, option, hint):
    result = CliRunner().invoke(command, ["a", option, "1"], prog_name=name)
    assert result.exit_code == 2 and result.output.count("\n") == 1
    assert hint in result.output
    assert option not in flags_of(command)
