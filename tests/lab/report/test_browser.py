"""The report in a real browser."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from gradagrad_lab.context import Context
from gradagrad_lab.figures import figure1
from gradagrad_lab.report import style
from gradagrad_lab.report.content import Claim, Panel, Picture, Section, Source, Table
from gradagrad_lab.report.page import write_report
from gradagrad_lab.study import conduct
from lab.chromium import CONTRAST, Chromium

PHONE, DESKTOP = 390, 1280


def mock_sections(context: Context) -> list[Section]:
    """Figure 1, and a section with a table far wider than a phone, long words and six pictures."""

    def curves(axes: Any) -> None:
        for name in ("adam", "sgd", "adagrad", "gradagrad"):
            axes.plot([0, 50, 100], [0.4, 0.6, 0.62], label=f"{name} (tuned)", **style.line(name))

    columns = ["data set", *(f"baseline {number} at its best" for number in range(9)), "difference", "verdict"]
    rows = [[name, *["0.6721"] * 9, "−0.012 ± 0.004", "level"] for name in ("glass", "vowel (reconstructed)")]
    panels = [Panel(curves, f"{n}: a title that is long") for n in range(6)]
    wide = Section(
        key="figure3",
        title="Figure 3: a mock with a wide table",
        intro="First paragraph.\n\nSecond, with a long word: " + "Donaudampfschifffahrtsgesellschaft" * 4,
        claims=[Claim("It needs no tuning.", "/a/path/" + "without-any-space" * 12, "does not hold")],
        tables=[Table("Accuracy", columns, rows, "Last 10 epochs.")],
        pictures=[Picture("Six panels", "mock", "A mock.", "six panels of curves", panels)],
        settings={"grid": ", ".join(f"2^{power}" for power in range(-12, 7))},
        sources=[Source("vowel", "PyPI (a_package/data/with/folders/vowel)", "made")],
    )
    return [conduct(figure1.STUDY, context), wide]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    context = Context(out=tmp_path_factory.mktemp("out"))
    return write_report(mock_sections(context), context)


EVERY_VIEW = pytest.mark.parametrize("scheme", ["light", "dark"])


# Boxes that hide a part of what they hold, and letters of a picture that lie outside of the card around it.
CUT = """
[...document.querySelectorAll('.scroll, h1, h2, h3, td, th, p, li, nav')]
  .filter(box => box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).display !== "inline"
    && box.clientWidth > 1)
  .map(box => box.tagName + " " + box.textContent.trim().slice(0, 40))
.concat([...document.querySelectorAll('.panels text')].filter(text => {
  const [inner, outer] = [text.getBoundingClientRect(), text.closest(".card").getBoundingClientRect()];
  return inner.left < outer.left - 1 || inner.right > outer.right + 1;
}).map(text => "picture: " + text.textContent))
"""


@EVERY_VIEW
@pytest.mark.parametrize("width", [320, PHONE, 768, DESKTOP])
def test_quiet_complete_and_no_wider_than_the_screen(browser: Chromium, page: Path, width: int, scheme: str) -> None:
    browser.open(page, width=width, scheme=scheme)
    assert browser.value("document.documentElement.scrollWidth") <= width
    boxes = browser.value("[...document.querySelectorAll('.panels svg')].map(svg => svg.getBoundingClientRect().width)")
    assert len(boxes) == 7, "one of Figure 1, six of the mock"
    assert browser.value("[...document.querySelectorAll('.panels b')].every(b => b.scrollWidth <= b.clientWidth + 1)")
    assert all(100 < box <= width for box in boxes)
    assert browser.value(CUT) == []
    assert browser.error_texts() == []
    assert browser.requests() == [page.as_uri()], "the page must need no other file and no network"


@EVERY_VIEW
def test_pictures_take_the_colours_of_the_page_and_words_have_the_contrast_of_wcag_aa(
    browser: Chromium, page: Path, scheme: str
) -> None:
    browser.open(page, width=DESKTOP, scheme=scheme)
    shade = style.colour("gradagrad")
    wanted = style.DARK_OF[shade] if scheme == "dark" else shade
    strokes = browser.value("[...document.querySelectorAll('.panels path')].map(p => getComputedStyle(p).stroke)")
    assert f"rgb({', '.join(str(int(wanted[n : n + 2], 16)) for n in (1, 3, 5))})" in strokes
    ratio, words = browser.value(CONTRAST)
    assert ratio >= 4.5, words


LABEL = "getComputedStyle(document.querySelector('.cards td'), '::before').content"
WIDTH, HEIGHT = "document.documentElement.scrollWidth", "document.documentElement.scrollHeight"
OPENED = f"(document.querySelectorAll('details').forEach(one => one.open = true), {HEIGHT})"
CONTENTS = (
    "(scrollTo({top: 3000, behavior: 'instant'}), document.querySelector('nav ol').getBoundingClientRect().toJSON())"
)
THUMBS = "[...document.querySelectorAll('.thumb use')].map(picture => picture.getBoundingClientRect().width > 60)"


def test_cards_on_a_phone_contents_that_stay_details_and_white_paper(browser: Chromium, page: Path) -> None:
    for width in (PHONE, DESKTOP):
        browser.open(page, width=width, scheme="dark")
        assert ("baseline 0 at its best" in browser.value(LABEL)) is (width == PHONE)
        assert browser.value(THUMBS) == [True, True]
        assert browser.value(HEIGHT) + 500 < browser.value(OPENED)
        assert browser.value(WIDTH) <= width
        place = browser.value(CONTENTS)
        assert 0 <= place["top"] < place["bottom"] <= 900
    browser.open(page, width=680, scheme="dark", media="print")  # A4 less its margins
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.value(WIDTH) <= 680


def test_headings_alternatives_and_anchors(browser: Chromium, page: Path) -> None:
    browser.open(page, width=DESKTOP, scheme="light")
    levels = browser.value("[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    named = "[...document.querySelectorAll('[role=img]')].map(e => e.getAttribute('aria-label').trim().length)"
    assert min(browser.value(named)) > 10
    assert browser.value("document.documentElement.lang") == "en"
    links = "[...document.querySelectorAll('a[href^=\"#\"]')]"
    assert browser.value(f"{links}.filter(a => !document.getElementById(a.hash.slice(1))).length") == 0
    twice = "(ids => ids.length - new Set(ids).size)([...document.querySelectorAll('[id]')].map(e => e.id))"
    assert browser.value(twice) == 0
