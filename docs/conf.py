"""The documentation site: `make docs`. Nothing is fetched, neither when it is made nor when it is read."""

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import gradagrad  # noqa: E402

project = "gradagrad"
author = "The GradaGrad maintainers"
project_copyright = author
version = release = gradagrad.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.doctest", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "architecture.md"]  # develop.md includes it
# The notebooks are stored without results and executed here; one that fails, fails the build.
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
default_role = "code"  # docstrings name things in single backticks
autodoc_member_order = "bysource"
autodoc_mock_imports = ["fbgemm_gpu", "torchrec"]  # make torchrec has them, in an environment of its own
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 90
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"gradagrad {version}"
# The report shows the page to play with too.
html_static_path = ["_static", "../src/gradagrad_lab/report/templates/play"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_domain_indices = False  # an index of modules would hold one
html_theme_options = {
    "source_repository": "https://github.com/gradagrad/gradagrad/",
    "source_branch": "main",
    "source_directory": "docs/",
}
html_math_renderer = "mathml"
doctest_test_doctest_blocks = "default"
doctest_global_setup = "import torch; torch.manual_seed(0)"


# Formulas as MathML, which browsers draw by themselves: no script, no font, no network.
def _mathml(text: str, *, as_block: bool) -> str:
    text = re.sub(r"\\[bB]igg?[lmr]?(?![a-zA-Z])", "", text)  # sizes are the browser's
    text = re.sub(r"(\\[td]?frac)(\d)(\d)", r"\1{\2}{\3}", text)  # docutils reads 12 as one number
    made = tex2mathml(text, as_block=as_block)
    over = r"<munderover>\s*(<mi>\w+</mi>)\s*(.*?)\s*(<mo[^>]*>ˉ</mo>)\s*</munderover>"  # it puts the index below a bar
    return re.sub(over, r"<msub><mover>\1\3</mover>\2</msub>", made, flags=re.DOTALL)


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(_mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{_mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Registers the renderer of formulas."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
