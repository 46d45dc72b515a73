"""The built site in a real browser. `make docs` builds it; CI does so before the tests."""

import itertools
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from lab.chromium import CONTRAST, Chromium

DOCS = Path(__file__).resolve().parents[2] / "docs"
SITE = DOCS / "_build" / "html"
PHONE, DESKTOP = 390, 1280
VIEWS = list(itertools.product((PHONE, DESKTOP), ("light", "dark")))


@pytest.fixture(scope="module")
def site() -> Path:
    stamp = DOCS / "_build" / "doctrees" / "environment.pickle"
    sources = [path for end in ("*.md", "*.ipynb", "*.py", "*.js", "*.css") for path in DOCS.rglob(end)]
    newest = max(path.stat().st_mtime for path in sources if "_build" not in path.parts)
    if not SITE.exists() or not stamp.exists() or stamp.stat().st_mtime < newest:
        pytest.skip("the site is not built, or older than its sources: make docs")
    return SITE


def words_of(page: Path) -> set[str]:
    """The places in a page that a link can lead to."""
    return set(re.findall(r'\bid="([^"]+)"', page.read_text(encoding="utf-8")))


LINKS = "[...new Set([...document.links].map((a) => a.href))].filter((href) => href.startsWith('file:'))"
BROKEN_PICTURES = "[...document.images].filter((i) => !i.complete || !i.naturalWidth).map((i) => i.src)"
# What sticks out of the screen without a box that scrolls around it. Formulas in a line do not widen the page.
WIDTH = """Math.max(document.documentElement.scrollWidth, ...[...document.querySelectorAll("math")]
  .filter((formula) => !formula.closest("div.math, .table-wrapper"))
  .map((formula) => Math.floor(formula.getBoundingClientRect().right)))"""


def test_every_page_in_every_view(browser: Chromium, site: Path) -> None:
    parts = ("_modules", "_static")  # source files, and what pages are made of
    pages = sorted(path for path in site.rglob("*.html") if path.relative_to(site).parts[0] not in parts)
    assert len(pages) > 20
    places = {page.resolve(): words_of(page) for page in site.rglob("*.html")}
    wrong: list[object] = []
    for page in pages:
        name = str(page.relative_to(site))
        browser.open(page, width=PHONE, scheme="light")
        papers = set()
        for width, scheme in VIEWS:
            browser.show(width=width, scheme=scheme)
            if browser.value(WIDTH) > width:
                wrong.append((name, width, scheme, "wider than the screen"))
            papers.add((scheme, browser.value("getComputedStyle(document.body).backgroundColor")))
            ratio, words = browser.value(CONTRAST)
            if ratio < 4.5:  # WCAG's AA
                wrong.append((name, width, scheme, "hard to read", words, ratio))
        if len(papers) != 2 or len({colour for _, colour in papers}) != 2:
            wrong.append((name, papers))
        wrong += [(name, "picture", picture) for picture in browser.value(BROKEN_PICTURES)]
        wrong += [(name, "fetched", url) for url in browser.requests() if not url.startswith("file:")]
        wrong += [(name, "console", words) for words in browser.error_texts()]
        for link in browser.value(LINKS):
            parts = urlsplit(link)
            target = Path(unquote(parts.path)).resolve()
            if not target.exists() or (parts.fragment and unquote(parts.fragment) not in places.get(target, ())):
                wrong.append((name, "link", link))
    assert wrong == []


def test_the_checks_can_fail(browser: Chromium, tmp_path: Path) -> None:
    page = tmp_path / "wrong.html"
    wide = '<div style="width:700px">wide</div><img src="x.png"><a href="nowhere.html">a</a><script>nothing()</script>'
    page.write_text(f'<meta name="viewport" content="width=device-width"><body style="margin:0">{wide}')
    browser.open(page, width=PHONE, scheme="light")
    assert browser.value(WIDTH) == 700
    assert len(browser.value(BROKEN_PICTURES)) == 1
    assert browser.value(LINKS) == [(tmp_path / "nowhere.html").as_uri()]
    assert len(browser.error_texts()) >= 2


# What the page shows of its runs, and what a reader who does not see it is told.
SHOWN = """({
  value: document.getElementById("gamma0-value").textContent,
  told: document.getElementById("gamma0").getAttribute("aria-valuetext"),
  pictures: [...document.querySelectorAll("#play svg")].map((svg) => svg.getAttribute("aria-label")),
  lines: [...document.querySelectorAll("#play polyline")].map((line) => line.getAttribute("points")),
  focus: document.activeElement.id || document.activeElement.value,
})"""
TAB, RIGHT, DOWN = ("Tab", 9), ("ArrowRight", 39), ("ArrowDown", 40)


def test_the_page_to_play_with_needs_no_mouse(browser: Chromium, site: Path) -> None:
    browser.open(site / "play.html", width=PHONE, scheme="light")
    before = browser.value(SHOWN)
    assert len(before["pictures"]) == 5
    assert len(before["lines"]) == 11, "two of them AutoGradaGrad's average"
    browser.value("document.querySelector('input[name=problem]').focus()")
    browser.press(*TAB)
    browser.press(*RIGHT)
    after = browser.value(SHOWN)
    assert after["focus"] == "gamma0"
    assert after["value"] == after["told"] != before["value"]
    assert after["lines"][1] != before["lines"][1]
    browser.value("document.querySelector('input[name=problem]').focus()")
    browser.press(*DOWN)
    valley = browser.value(SHOWN)
    assert valley["focus"] == "valley"
    assert valley["lines"][0] != after["lines"][0]
    assert all("loss" in words and "γ" in words for words in valley["pictures"][:3])
    assert browser.error_texts() == []


def test_extreme_settings_are_drawn(browser: Chromium, site: Path) -> None:
    browser.open(site / "play.html", width=PHONE, scheme="dark")
    for end in ("min", "max"):
        browser.value(
            f"document.querySelectorAll('#play input[type=range]').forEach((i) => {{ i.value = i.{end}; }});"
            "document.getElementById('gamma0').dispatchEvent(new Event('input'))"
        )
        lines = browser.value(SHOWN)["lines"]
        assert all(points and "NaN" not in points for points in lines)
        assert browser.error_texts() == []
