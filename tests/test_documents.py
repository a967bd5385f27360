"""The documents: pages are short and plain, and the tests that they name exist."""

import ast
import functools
import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from .prose import sentences, words

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
SITE = sorted(path for path in ROOT.glob("docs/**/*.md") if "{include}" not in path.read_text())
# relative clauses without a noun: "Those who see a wall", "What is kept"
VAGUE = ("What", "Of", "Those")
QUESTIONS = ("How", "Where", "Which", "Who", "Why", *VAGUE)
PAGES = ("docs/reference/security.md", "docs/reference/numbers.md")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@functools.cache
def functions(file):
    """Names of the tests in a file; none where there is no file."""
    path = ROOT / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.exists() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_exists(page):
    named = NAMED.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(named) > 10
    missing = [f"{file}::{name}" for file, name in named if name and name not in functions(file)]
    missing += [file for file, name in named if not name and not functions(file)]
    assert not missing


def test_every_line_of_the_threat_model_has_a_test():
    text = (ROOT / "docs/reference/security.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    lines = [line for line in lines if not line.endswith("| test |")]
    assert len(lines) > 12
    for line in lines:
        assert NAMED.search(line.split("|")[-2]), line


def too_long(path, most):
    text = path.read_text(encoding="utf-8")
    return [sentence for sentence in sentences(text) if len(sentence.split()) > most]


def test_the_readme_is_short():
    assert len(words(README.read_text(encoding="utf-8"))) <= 900
    assert too_long(README, 30) == []


@pytest.mark.parametrize("path", SITE, ids=lambda path: path.relative_to(ROOT / "docs").as_posix())
def test_a_page_is_plain(path):
    """Short sentences with their subject first, plain headings, and what its reader can do."""
    assert too_long(path, 40) == []
    text = path.read_text(encoding="utf-8")
    found = list(sentences(text))
    assert [each for each in found if each.startswith(tuple(f"{w} " for w in VAGUE))] == []
    titles = headings(text)
    assert [title for title in titles if title.startswith(tuple(f"{w} " for w in QUESTIONS))] == []
    if path.name != "index.md" or "api" in path.parts:
        assert re.match(r"After (reading )?this (page|tutorial) you ", found[1])


def headings(text):
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.findall(r"^#+ (.*)", text, re.MULTILINE)


def test_the_documents_are_short():
    """As ``wc -w`` counts them, tables and code included."""
    pages = (*ROOT.glob("docs/**/*.md"), *map(ROOT.joinpath, ("README.md", "CHANGELOG.md")))
    pages += (ROOT / "CONTRIBUTING.md",)
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 50_000


def anchors(page):
    """Names that headings of a page have in links."""
    titles = headings(page.read_text(encoding="utf-8"))
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in titles)
    return {re.sub(r"[^\w\- ]", "", title.lower().strip()).replace(" ", "-") for title in plain}


@pytest.mark.parametrize(
    "path", [*ROOT.glob("*.md"), *SITE], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_links_lead_to_pages_and_headings(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", text):
        if "://" not in target:
            goal = path.parent / target if target else path
            assert goal.exists(), target
            assert not anchor or anchor in anchors(goal), f"{target}#{anchor}"


MARKDOWN = MarkdownIt("commonmark").enable("table")


def lost_rows(text):
    """Lines of a page that are meant as rows of a table and are none, or have too many cells."""
    lines = text.splitlines()
    lost, inside = [], set()
    for token in MARKDOWN.parse(text):
        if token.type in ("table_open", "fence", "code_block") and token.map:
            first, last = token.map
            inside |= {*range(first, last)}
            if token.type == "table_open":
                counts = [len(re.findall(r"(?<!\\)\|", line.strip())) for line in lines[first:last]]
                lost += [lines[first + k] for k, n in enumerate(counts) if n != counts[0]]
    return lost + [line for k, line in enumerate(lines) if "|--" in line and k not in inside]


@pytest.mark.parametrize(
    "path", [*ROOT.glob("*.md"), *SITE], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_tables_are_rendered(path):
    assert lost_rows(path.read_text(encoding="utf-8")) == []


def test_a_delimiter_row_behind_a_space_is_noticed():
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert lost_rows(table) == []
    for wrong in (table.replace("|---|---|", " | |---|---|"), table.replace("|---|---|", "|---|")):
        assert lost_rows(wrong)
    assert lost_rows(table.replace("2", "2 | 3")) == ["| 1 | 2 | 3 |"]
