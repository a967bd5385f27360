"""The pages that are executed: they run from start to end, and say no number that they measure."""

import ast
import importlib
import re
import shlex
import subprocess
from pathlib import Path

import jupytext
import matplotlib.pyplot as plt
import pytest
from click.testing import CliRunner

from vpintegrator.cli.command import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for folder in ("tutorials", "theory")
    for path in sorted(ROOT.glob(f"docs/{folder}/*.md"))
    if "{code-cell}" in path.read_text(encoding="utf-8")
]
# what a run gives: powers of ten, percentages, factors, times
MEASURED = re.compile(r"\d[eE]-\d|10\^\{-|\d\s*%|\d times|\d\s(?:ns|us|ms|seconds)\b")


def shell(line):
    """Run a line of a cell; our commands run in this process, which has imported them."""
    name, *arguments = shlex.split(line)
    if not name.startswith("vp-"):
        subprocess.run(line, shell=True, check=True, capture_output=True)
        return
    command = importlib.import_module(f"vpintegrator.cli.{COMMANDS[name][0]}").main
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output


def run(source, names):
    """Run a cell, and display the value of its last expression as Jupyter does."""
    source = re.sub(r"^%.*", "", source, flags=re.MULTILINE)
    tree = ast.parse(re.sub(r"^!(.*)", lambda line: f"shell({line[1]!r})", source, flags=re.M))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "a cell", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "a cell", "eval"), names)
        getattr(value, "_repr_html_", lambda: repr(value))()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, site, monkeypatch):
    """With trainings of a second."""
    monkeypatch.chdir(tmp_path)
    if "from sklearn" in path.read_text(encoding="utf-8"):
        pytest.importorskip("sklearn")
    text = site("notebooks").shortened(path.read_text(encoding="utf-8"), "1")
    assert not re.search(r"seconds(=|\s+)(?!1\b)\d", text)
    names = {"shell": shell, "__name__": "__main__"}
    with plt.rc_context():  # pages set the resolution of their figures
        for cell in jupytext.reads(text, fmt="md:myst").cells:
            if cell.cell_type == "code":
                run(cell.source, names)
    plt.close("all")


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("docs/tutorials/*.md")), ids=lambda path: path.stem
)
def test_no_measured_number_is_typed_in(path):
    notebook = jupytext.read(path, fmt="md:myst")
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            prose = re.sub(r"```.*?```|`[^`]*`", "", cell.source, flags=re.DOTALL)
            found = MEASURED.search(prose)
            assert not found, f"{found[0]!r} in: {cell.source}"
