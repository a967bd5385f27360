"""A system in a notebook: formulas that typeset, and nothing that is obeyed."""

import re

import pytest
from markdown_it import MarkdownIt
from matplotlib.mathtext import MathTextParser

import vpintegrator as vp


def formulas(text):
    """What stands between dollars, the rows of an environment one by one."""
    found = []
    for block, inline in re.findall(r"\$\$\n(.*?)\n\$\$|\$([^$]+)\$", text, re.DOTALL):
        if inline:
            found.append(inline)
            continue
        inside = re.fullmatch(r"\\begin\{aligned\}\n(.*)\n\\end\{aligned\}", block, re.DOTALL)[1]
        found += inside.split(" \\\\\n")
    return found


@pytest.mark.parametrize("name", ["toda", "tokamak", "standard-map", "forced-duffing"])
def test_every_formula_of_the_catalogue_is_closed(name):
    text = vp.load_system(name)._repr_markdown_()
    assert text.count("$") % 2 == 0
    assert len(formulas(text)) >= 2
    for formula in formulas(text):
        assert formula.count("{") == formula.count("}")
        assert formula.count(r"\left") == formula.count(r"\right")
        assert "None" not in formula and "nan" not in formula


@pytest.mark.parametrize("name", ["rigid-body", "pendulum", "henon-heiles", "lotka-volterra-3d"])
def test_formulas_typeset(name):
    parser = MathTextParser("path")
    for formula in formulas(vp.load_system(name)._repr_markdown_()):
        parser.parse(f"${formula.replace('&', '')}$")


def test_it_says_all_that_is_known():
    text = vp.load_system("rigid-body", I1=3.0)._repr_markdown_()
    assert r"\dot{z}_{1} &= z_{2} z_{3} \left(\frac{1}{I_{3}} - \frac{1}{I_{2}}\right)" in text
    assert "$I_{1} = 3$" in text and "squared momentum $z_{1}^{2}" in text
    assert r"$z_{1} \mapsto - z_{1}$" in text
    assert "divergence-free" in text and "Hairer, Lubich, Wanner" in text


@pytest.mark.parametrize(
    "title",
    [
        "<script>alert(1)</script>",
        "![x](http://example.org/x.png)",
        "[x](javascript:alert(1))",
        "$\\href{javascript:alert(1)}{x}$",
        "`code` **bold** _x_ ~~y~~ | a | b |",
        "&lt;b&gt;",
    ],
)
def test_nothing_of_a_file_is_obeyed(title):
    state = 'state = ["q", "p"]\nhamiltonian = "p**2/2 + q**2/2"\n'
    given = f"title = '{title}'\ndescription = '{title}'\nreference = '{title}'\n"
    text = vp.load_system(given + state)._repr_markdown_()
    before, _, after = text.partition("$$")
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for part in (before, after.rpartition("$$")[2]):
        kinds = {
            token.type
            for block in reader.parse(part)
            for token in (block, *(block.children or []))
            if not (part is before and token.type in ("strong_open", "strong_close"))
        }
        assert not kinds & {
            *("html_block", "html_inline", "link_open", "image", "heading_open", "table_open"),
            *("em_open", "strong_open", "s_open", "ordered_list_open", "autolink"),
        }
        assert "bullet_list_open" not in kinds or part is not before
        shown = "".join(
            child.content for block in reader.parse(part) for child in block.children or []
        )
        if "$" not in title:
            assert title in shown  # as it stands
    assert text.count("$") - text.count("$$") * 2 == 2 * len(re.findall(r"(?<!\$)\$[^$]+\$", text))
