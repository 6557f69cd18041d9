"""The guide: made of the pages here, the package's README files and docstrings, and the scripts in ``examples``.

``python -m tools.site`` builds it; warnings are errors.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

import fwonline  # noqa: E402

project = "fwonline"
author = "the fwonline developers"
release = version = fwonline.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx-mathjax-offline",  # formulas without a network
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["generated", "templates"]
templates_path = ["templates"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # the gallery's configuration holds functions

default_role = "literal"

# Each class and function has a page of its own, made of its docstring.
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's own sections say what parameters are
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": "serve_http",  # a server: it is tested, and does not end
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 5,
}

html_theme = "furo"
html_title = "fwonline"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_sphinx = False
