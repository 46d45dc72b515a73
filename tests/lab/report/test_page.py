"""The report as text: what it says, that it escapes its input, and that it is written completely or not at all."""

import errno
import os
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import typer.main

from gradagrad_lab.cli.app import app
from gradagrad_lab.context import Context, Size
from gradagrad_lab.errors import UserError
from gradagrad_lab.report import page as report
from gradagrad_lab.report import style
from gradagrad_lab.report.content import Claim, Panel, Picture, Section, Source, Table


class Page(HTMLParser):
    """Tags with their attributes, and all text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(out=tmp_path / "out")


def rising(axes: Any) -> None:
    axes.plot([0, 1], [0.25, 1], label="rising", **style.line("gradagrad"))
    axes.plot([0, 1], [1, 1], **style.line("adam"))


def drawn(stem: str = "stem", panels: int = 1) -> Picture:
    return Picture("A picture", stem, "Its caption.", "a rising line", [Panel(rising, f"p{n}") for n in range(panels)])


NASTY = '<script>alert("x")</script> & "quotes" \'single\' <b>'


def test_everything_a_user_writes_is_escaped(context: Context) -> None:
    section = Section(
        *(NASTY, NASTY, NASTY),
        claims=[Claim(NASTY, NASTY, "holds", criterion=NASTY)],
        tables=[Table(NASTY, [NASTY, "b"], [[NASTY, NASTY]], NASTY)],
        pictures=[Picture(NASTY, "stem", NASTY, NASTY, [Panel(rising, NASTY)])],
        settings={NASTY: NASTY},
        sources=[Source(NASTY, NASTY, NASTY)],
        **dict.fromkeys(("summary", "paper", "number", "missing"), NASTY),
    )
    nasty_folder = Context(out=context.out, data_dir=Path(f"/tmp/{NASTY}"))
    html = report.render([section], nasty_folder)
    page = Page(html)
    assert html.count("<script") == 1, "the page to play with has the only one"
    assert {tag for tag, _ in page.tags}.isdisjoint({"iframe", "object"})
    assert [div["aria-label"] for div in page.all("div") if div.get("role") == "img"] == [NASTY]
    assert page.text.count(NASTY) >= 15
    assert all("<" not in (attributes.get("id") or "") for _, attributes in page.tags)
    html = report.render([Section("a", "A", "Type `run <b> --full`, with ρ = 2.")], context)
    assert "Type <code>run &lt;b&gt; --full</code>, with ρ\u00a0=\u00a02." in html


def test_nothing_is_fetched_from_elsewhere(context: Context) -> None:
    page = Page(report.render([Section("a", "A", "B", pictures=[drawn()])], context))
    pairs = [pair for _, attributes in page.tags for pair in attributes.items()]
    addresses = [value or "" for name, value in pairs if name in ("src", "srcset", "href")]
    assert len(addresses) > 4
    beside = {"data/stem.csv", "figures/stem.png"}
    assert all(address.startswith(("data:", "#")) for address in addresses if address not in beside)
    policy = next(meta["content"] or "" for meta in page.all("meta") if "http-equiv" in meta)
    assert policy.startswith("default-src 'none'")


def test_the_summary_has_a_line_per_experiment_and_counts_three_groups_apart(context: Context) -> None:
    claims = [
        Claim("a", "first evidence", "holds", number="7 of 7"),
        Claim("b", "e", "holds", criterion="It is so.", fixed="after"),
        Claim("c", "e", "does not hold", whose="proof"),
        Claim("d", "e", "not tested", whose="ours"),
    ]
    one = Section("one", "One: a title", "", claims=claims, seconds=61)
    two = Section("two", "Two", "", summary="Two in a line.", paper="It says two.", number="2", missing="3: get it. ")
    page = Page(report.render([one, two], context))
    text = re.sub(r"\s+", " ", page.text)
    order = ["The paper’s experiments", "✓ 2 hold", "The paper’s proofs", "✕ 1 does not hold"]
    order += ["Our own", "– 1 not tested", "whereverdict", "One ◐ holds in part", "first evidence"]
    order += ["Two –", "It says two.", "Two in a line.", "missing or replaced here. 3: get it."]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert text.count("quick size") == 1, "one banner says it for the whole page"
    assert text.index("7 of 7") < text.index("Criterion, fixed after results were seen: It is so.")
    (start, *_) = (place for place, (tag, _) in enumerate(page.tags) if tag == "nav")
    links = [attributes["href"] for tag, attributes in page.tags[start : start + 20] if tag == "a"]
    assert links[:5] == ["#summary", "#one", "#two", "#try", "#again"]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["holds", "holds"], "holds"),
        (["holds", "does not hold"], "holds in part"),
        (["does not hold", "not tested"], "does not hold"),
        (["not decidable at this size"] * 2, "not decidable at this size"),
        ([], "not tested"),
    ],
)
def test_a_section_s_verdict_follows_from_the_paper_s_claims(verdicts: list[Any], expected: str) -> None:
    ours = [Claim("ours", "e", "does not hold", whose="ours")] * bool(verdicts)
    assert report.overall([*(Claim("a", "e", verdict) for verdict in verdicts), *ours]) == expected


def test_the_page_of_a_user_s_own_data_judges_nothing(context: Context) -> None:
    page = Page(report.render([Section("figure3", "Your data: mine.csv", "")], context))
    heading = page.text[page.text.index("reproduction report") :].split("\n")[1].strip()
    assert heading == "Your data: mine.csv"
    assert "does not hold" not in page.text


def test_numbers_lie_beside_the_page(context: Context) -> None:
    table = Table("t", ["name", "value, in %"], [["a", "1.5"], ["b", "−2"]])
    report.write_report([Section("one", "One", "", tables=[table], pictures=[drawn(panels=2)])], context)
    rows = (context.out / "data" / "one-table-1.csv").read_text(encoding="utf-8").splitlines()
    assert rows == ['name,"value, in %"', "a,1.5", "b,−2"]
    rows = (context.out / "data" / "stem.csv").read_text(encoding="utf-8").splitlines()
    expected = ["panel,line,x,y", "p0,rising,0.0,0.25", "p0,rising,1.0,1.0"]
    assert rows == [*expected, "p1,rising,0.0,0.25", "p1,rising,1.0,1.0"], "lines without a name are not data"
    assert (context.out / "figures" / "stem.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Claim("a", "b", "proven"), r"verdict must be one of 'holds', .*, got 'proven'\."),  # pyright: ignore
        (lambda: Table("t", ["a", "b"], [["1", "2"], ["1"]]), "row 2 has 1"),
        (lambda: Picture("p", "stem", "caption", " "), "alt of picture 'p'"),
        (lambda: style.ramp(8), "1 to 7 colours, got 8"),
    ],
)
def test_what_cannot_be_shown_is_refused(make: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "gradagrad reproduce figure2 --quick"),
        ({"size": Size.FULL, "seeds": 3}, "gradagrad reproduce figure2 --full --seeds 3"),
        ({"first_seed": 0}, "gradagrad reproduce figure2 --quick --first-seed 0"),
        (
            {"size": Size.PAPER, "rows": 25600, "softmax": True},
            "gradagrad reproduce figure2 --size paper --softmax --rows 25600",
        ),
        (
            {"only": ("glass", "vowel"), "gamma0": (0.3, 1e-5), "rho": (50.0,), "files": (Path("a.csv"),)},
            "gradagrad reproduce figure2 --quick --only glass,vowel --gamma0 0.3 --gamma0 1e-05 --rho 50 --data a.csv",
        ),
        ({"data_dir": Path("my data")}, "gradagrad reproduce figure2 --quick --data-dir 'my data'"),
    ],
)
def test_the_command_to_run_it_again(options: dict[str, Any], expected: str) -> None:
    """And the program accepts it."""
    context = Context(out=Path("out"), **options)
    assert report.command([Section("figure2", "", "")], context) == f"{expected} --out out"
    everything = report.command([Section("figure1", "", ""), Section("figure2", "", "")], context)
    assert everything == f"{expected} --out out".replace(" figure2", "", 1)
    group: Any = typer.main.get_command(app)
    parsed = group.commands["reproduce"].make_context("reproduce", shlex.split(expected)[2:]).params
    assert (parsed["experiment"], parsed["full"]) == ("figure2", options.get("size") is Size.FULL)
    given = options.keys() & {"seeds", "first_seed", "rows", "softmax", "data_dir"}
    assert all(parsed[name] == options[name] for name in given)
    assert tuple(parsed["gamma0"] or ()) == options.get("gamma0", ())


def test_a_failed_write_leaves_the_old_report(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    path = report.write_report([Section("a", "Old", "")], context)
    before = path.read_bytes()

    def full(source: Any, target: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match="disk is full"):
        report.write_report([Section("a", "New", "")], context)
    assert path.read_bytes() == before
    assert [entry.name for entry in context.out.iterdir()] == ["report.html"]


def test_pictures_are_written_whole_and_always_the_same(context: Context) -> None:
    folder = context.out / "figures"
    first = {path.name: path.read_bytes() for path in style.save(style.sheet(drawn(panels=4)), folder, "stem")}
    assert set(first) == {"stem.png", "stem.svg"} == {entry.name for entry in folder.iterdir()}
    again = {path.name: path.read_bytes() for path in style.save(style.sheet(drawn(panels=4)), folder, "stem")}
    assert again == first
