"""The pages that are executed: they run from start to end, and say no number that they measure."""

import re
from pathlib import Path

import jupytext
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for folder in ("tutorials", "theory")
    for path in sorted(ROOT.glob(f"docs/{folder}/*.md"))
    if "{code-cell}" in path.read_text(encoding="utf-8")
]
# what a run gives: powers of ten, percentages, factors, times
MEASURED = re.compile(r"\d[eE]-\d|10\^\{-|\d\s*%|\d times|\d\s(?:ns|us|ms|seconds)\b")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, site):
    """With trainings of two seconds."""
    text = site("notebooks").shortened(path.read_text(encoding="utf-8"), "2")
    assert not re.search(r"seconds(=|\s+)(?!2\b)\d", text)
    client = NotebookClient(
        jupytext.reads(text, fmt="md:myst"),
        timeout=300,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    notebook = client.execute()
    printed = [
        out.text for cell in notebook.cells for out in cell.get("outputs", ()) if "text" in out
    ]
    # a command that fails does not end a notebook
    assert not re.findall(
        r"^(?:Error|Usage|Traceback|\S+: command not found).*", "\n".join(printed), re.M
    )


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("docs/tutorials/*.md")), ids=lambda path: path.stem
)
def test_no_measured_number_is_typed_in(path):
    notebook = jupytext.read(path)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            prose = re.sub(r"```.*?```|`[^`]*`", "", cell.source, flags=re.DOTALL)
            found = MEASURED.search(prose)
            assert not found, f"{found[0]!r} in: {cell.source}"


def test_trainings_become_short(site):
    text = "vp.train(model, data, seconds=15.5); !vp-train x.h5 --seconds 20 -o y; 30 seconds"
    short = "vp.train(model, data, seconds=2); !vp-train x.h5 --seconds 2 -o y; 30 seconds"
    assert site("notebooks").shortened(text, "2") == short
    assert (
        site("notebooks").shortened("--ensemble 20000 --steps 9", "2") == "--ensemble 500 --steps 9"
    )
