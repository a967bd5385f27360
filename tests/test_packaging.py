"""What stands beside the package agrees with it."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import vpintegrator as vp

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_stands_in_one_place():
    assert "version" not in PROJECT["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == vp.__version__
    assert citation["title"] == PROJECT["project"]["name"]
    assert citation["license"] == PROJECT["project"]["license"]


def test_the_changelog_speaks_of_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d+\.\d+\.\d+)", text, re.MULTILINE)
    assert "## Unreleased" in text
    assert vp.__version__ in (released or [re.search(r"(\d+\.\d+\.\d+), will hold", text)[1]])


def test_every_extra_is_explained():
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(explained) == sorted(PROJECT["project"]["optional-dependencies"])


def test_every_command_is_in_the_loop_of_completions():
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    named = re.search(r"for command in (.*); do", page)[1].split()
    assert sorted(named) == sorted(PROJECT["project"]["scripts"])


@pytest.mark.parametrize("page", ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_every_link_leads_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([\w/.-]+)\)", text):
        assert (ROOT / target).exists(), target
