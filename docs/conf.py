"""How Sphinx makes the site of the pages in this folder: ``scripts/docs``."""

import sys
from pathlib import Path

import vpintegrator

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "site"))

project = "vpintegrator"
author = "The vpintegrator developers"
version = release = vpintegrator.__version__
copyright = author

extensions = [
    "myst_nb",  # Markdown, and notebooks that are executed
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    # of docs/site
    "command_line",
    "command_lines",
    "local_mathjax",
    "long_cells",
    "models",
    "notebook_files",
    "notebooks",
    "python_api",
    "repository_files",
    "systems",
]
exclude_patterns = ["site"]
# indented blocks of Markdown are commands as often as output
highlight_language = "none"
default_role = "code"
smartquotes = False  # two dashes begin an option

html_theme = "furo"
html_title = f"vpintegrator {version}"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_favicon = "site/static/logo.svg"
html_theme_options = {
    "light_logo": "logo.svg",
    "dark_logo": "logo.svg",
    "navigation_with_keys": True,
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
myst_links_external_new_tab = False

nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "build" / "docs" / "executed")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_merge_streams = True
nb_render_markdown_format = "myst"  # systems are Markdown with formulas

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the sections of a docstring say shapes and units, which types cannot
autodoc_inherit_docstrings = False  # torch says the same of every forward
python_maximum_signature_line_length = 80
napoleon_use_ivar = True  # beside properties an attribute would stand twice
autosummary_generate = False
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
