"""How Sphinx builds the site from the Markdown of this folder: `make docs`. docs/site.md says why it is Sphinx."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

import ldpbandits  # noqa: E402 - found by the line above

project = "ldpbandits"
author = "The ldpbandits developers"
copyright = author  # noqa: A001 - Sphinx's name for it
version = release = ldpbandits.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "generated_pages", "plain_docstrings"]
exclude_patterns = ["_ext"]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
highlight_language = "none"
default_role = "code"
smartquotes = False  # two hyphens are an option, not a dash

myst_heading_anchors = 4

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True}

html_theme = "furo"
html_title = "ldpbandits"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
