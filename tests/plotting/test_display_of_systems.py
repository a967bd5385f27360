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


@pytest.mark.parametrize(
    "name", ["rigid-body", "pendulum", "henon-heiles", "lotka-volterra-3d", "forced-duffing"]
)
def test_formulas_typeset(name):
    text = vp.load_system(name)._repr_markdown_()
    assert len(formulas(text)) >= 2 and text.count("$") % 2 == 0
    for formula in formulas(text):
        MathTextParser("path").parse(f"${formula.replace('&', '')}$")
        assert "None" not in formula and "nan" not in formula


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
    assert len(re.findall(r"\$[^$]+\$", text.replace("$$", ""))) * 2 == text.replace(
        "$$", ""
    ).count("$")
    before, _, after = re.sub(r"\$\$.*?\$\$", "§", text, flags=re.DOTALL).partition("§")
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    plain = {"paragraph_open", "paragraph_close", "inline", "text", "text_special", "softbreak"}
    for part, own in ((before, {"strong", "code_inline"}), (after, {"bullet_list", "list_item"})):
        blocks = reader.parse(part)
        tokens = [each for block in blocks for each in (block, *(block.children or []))]
        kinds = {token.type for token in tokens} - plain
        assert {kind.removesuffix("_open").removesuffix("_close") for kind in kinds} <= own
        shown = "".join(token.content for token in tokens if token.type != "inline")
        assert "$" in title or title in shown  # as it stands
