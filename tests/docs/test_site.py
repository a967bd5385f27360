"""The site: it builds without a warning, its links lead somewhere, its pages load in a browser.

Cells are not executed here: test_notebooks.py does that. ``scripts/docs`` does all of it.
"""

import html
import subprocess
import sys
from pathlib import Path

import click
import pytest

import vpintegrator as vp
from vpintegrator.cli.command import COMMANDS
from vpintegrator.overview import system_summaries

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q"]
    command += ["-D", "nb_execution_mode=off", "-d", folder / "doctrees"]
    # a notebook says that its cells are IPython's when it is executed
    command += ["-D", "suppress_warnings=misc.highlighting_failure"]
    done = subprocess.run(
        [*command, ROOT / "docs", folder / "html"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_the_site(built, site):
    """One test, so that processes of tests build it once."""
    assert list(site("links").problems(built)) == []
    chromium = site("browser").browser()
    if chromium is not None:
        # listings of modules, most of the pages, are made alike; scripts/docs opens them all
        assert list(site("browser").problems(built, chromium, sources=False)) == []
    for command in COMMANDS:
        page = (built / "reference" / f"{command}.html").read_text(encoding="utf-8")
        for parameter in site("command_line").loaded(command).params:
            for name in parameter.opts if isinstance(parameter, click.Option) else ():
                assert f'id="cmdoption-{command}-{name.strip("-")}"' in page
    page = (built / "reference" / "systems.html").read_text(encoding="utf-8")
    for summary in system_summaries():
        assert summary["name"] in page
        assert html.escape(vp.load_system(summary["name"]).title, quote=False) in page
    notebooks = {path.stem for path in (built / "notebooks").glob("*.ipynb")}
    assert {path.stem for path in ROOT.glob("docs/tutorials/*.md")} <= notebooks


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_broken_links_are_found(tmp_path, site):
    write(tmp_path, "index.html", '<a href="a/b.html#there">x</a><a href="https://pytorch.org">')
    write(tmp_path, "a/b.html", '<p id="there"><img src="c%20d.png"><a href="../index.html">')
    write(tmp_path, "a/c d.png", "")
    assert list(site("links").problems(tmp_path)) == []
    write(tmp_path, "a/b.html", '<img src="e.png"><a href="../../index.html"></a>')
    write(tmp_path, "f.html", '<script src="https://example.org/x.js"></script>')
    write(tmp_path, "g.css", "a { background: url('https://example.org/y.png') }")
    assert sorted(site("links").problems(tmp_path)) == [
        "a/b.html: ../../index.html does not exist",
        "a/b.html: e.png does not exist",
        "f.html: https://example.org/x.js is fetched from elsewhere",
        "g.css: https://example.org/y.png is fetched from elsewhere",
        "index.html: a/b.html#there has no such place",
    ]
