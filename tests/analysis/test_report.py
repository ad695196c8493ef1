"""The report: what it finds, what it shows, and that it is whole on every screen."""

import itertools
import os
import re
import shutil

import numpy as np
import pytest
from chromium import Chromium, find_chromium
from combinations import all_at_night
from flawed_corpus import FLAWS, write_flawed_corpus

import seqrecorder as sr
from seqrecorder.analysis import survey
from seqrecorder.analysis.findings import LEVELS
from seqrecorder.errors import DatasetNotFoundError, OptionError, SchemaError

HOSTILE = "<script>document.title='got in'</script>\"'><img src=x onerror=alert(1)>\x1b[2J\u202e</svg></table>"


@sr.record
class Series:
    key: str = sr.context(str, key=True)
    label: str = sr.context(str, default="a")
    start: np.datetime64 = sr.context("datetime64[s]", default=np.datetime64("2026-01-01", "s"))
    price: np.ndarray = sr.feature_list("float64", default=())
    flags: np.ndarray = sr.feature_list("int8", default=())


TOLD = {
    "damaged files": "train/train-00000-of-00002.tfrecord: its SHA-256 is not the manifest's: the contents changed; "
    "the section Damage has 1 other problem.",
    "unreadable records": "1 train record cannot be read; it is excluded from all statistics.",
    "shared contents": "6 records have identical contents in train and eval, under different keys.",
    "time goes backwards": "goes backwards at 3 steps in 3 records in train (first: r17).",
    "exact copies": "9 records in train repeat an earlier one exactly (first: again-0 = r100).",
    "constant values": "Channel 2 (counting from 0) is always 0.25.",
    "outliers": "the minimum, -9999 (22 times), is far from other values: 98% lie between 55 and 94.",
    "groups nearly disjoint": "2 of the 12 values of speaker in eval (s0, s7) are also in train. If splits should "
    "not share a speaker, this is leakage.",
    "empty records": "5 records in train have no steps (empty or None).",
    "very long records": "r320 has 4,000 steps, 14.9% of all steps; 99% of the records have at most 99.",
    "labels differ": "seizure is 32.3% of train, 0.0% of eval (Jensen-Shannon 0.429, limit 0.198).",
    "values differ": "mean 36.84 in train, 94.06 in eval (Kolmogorov-Smirnov 0.931, limit 0.242).",
    "missing values": "696 of 26,827 values (2.6%): 664 in train, 32 in eval, 90% of them at steps 30 to 38.",
}
"""What is said of the flawed corpus."""


@pytest.fixture(scope="module")
def flawed(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "flawed"
    write_flawed_corpus(path)
    return path


@pytest.fixture(scope="module")
def report(flawed):
    return sr.report(flawed)


def series(number: int, rng: np.random.Generator, **values) -> Series:
    steps = int(rng.integers(5, 30))
    given = {"key": f"s{number}", "label": "ab"[number % 2], "price": rng.normal(size=steps),
             "flags": rng.integers(0, 2, steps).astype("i1"), **values}  # fmt: skip
    return Series(**given)


@pytest.fixture
def no_plans(monkeypatch):
    """Leave out the comparison of strategies, which traces graphs: it is no matter of the test."""
    monkeypatch.setattr(survey, "compare", not_compared)


def not_compared(*_):
    raise OptionError("left out")


def rules_of(found: sr.Report) -> set[tuple[str, str]]:
    return {(each.rule, each.about) for each in found.findings}


def test_every_planted_flaw_is_found(report):
    """Of twelve flaws each has its finding, on top of the page in words, and little else is found."""
    found = [flaw for flaw, finding in FLAWS.items() if finding in rules_of(report)]
    assert found == list(FLAWS)
    assert len(found) == 12
    consequences = {("unreadable records", ""), ("labels differ", "label, train and eval")}
    assert rules_of(report) - set(FLAWS.values()) == consequences
    top = report.html[report.html.index('id="findings"') : report.html.index('id="contents"')]
    for rule, about in FLAWS.values():
        assert re.search(rf'<a href="#\w+">{rule}</a>(?: <b>{about}</b>)?:', top)
    told = {each.rule: each.message for each in report.findings}
    assert {rule: told[rule] for rule in TOLD} == TOLD
    assert [each.level for each in report.findings] == sorted(
        (each.level for each in report.findings), key=list(LEVELS).index
    )


def test_captions_say_what_is_drawn(report):
    """What bins, colours, lines and positions stand for is said where they are."""
    for text in (
        "<p>14 findings: 4 wrong, 9 to look at, 1 good to know</p>",
        "341 readable records (class Recording)",
        "The last bin holds everything up to 4,000. Grey lines: boundaries of buckets.",
        "the 10 most frequent of 30, which are 52.8% of train and 8.0% of eval.",
        "Kolmogorov-Smirnov 0.931, limit 0.242: differs",
        "Share of each split&#x27;s values, on 2026-01-01.",
        "Times are not compared",
        "<summary>Channels as a table</summary>",
        "Empty cells 0%, the fullest colour 25.9%; the last cell covers step 141 and later.",
        "664 in train, 32 in eval</td>",
        "Checked: keys (none shared) and contents.",
        "(160, 84) (first 5 of 6)",
        "train, position 240, key r320",
        "ecg, drawn from 110 of 4,000 steps",
    ):
        assert text in report.html


def test_values_of_sparse_labels_may_be_all_alike(tmp_path):
    """Several labels of one record are ones in a sparse vector, of which the report says nothing."""

    @sr.record
    class Clip:
        labels: sr.SparseVector = sr.context("float32", sparse=5)

    labels = [sr.SparseVector([number % 5], np.ones(1, np.float32), 5) for number in range(20)]
    sr.write(map(Clip, labels), tmp_path / "corpus")
    assert rules_of(sr.report(tmp_path / "corpus", tmp_path / "report.html")) == {("exact copies", "")}


@pytest.mark.usefixtures("no_plans")
def test_sound_data_has_no_findings(tmp_path):
    """Two splits of the same kind differ in nothing."""
    rng = np.random.default_rng(1)
    sr.write({"train": [series(n, rng) for n in range(200)], "eval": [series(n, rng) for n in range(200, 300)]},
             tmp_path / "corpus")  # fmt: skip
    found = sr.report(tmp_path / "corpus", tmp_path / "report.html")
    assert rules_of(found) == {("constant values", "start")}
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == found.html
    assert found.html == sr.report(sr.open(tmp_path / "corpus")).html


@pytest.mark.usefixtures("no_plans")
def test_durations_are_no_clock(tmp_path):
    """Durations of steps go up and down, and repeat, without a finding: only dates and times have to ascend."""

    @sr.record
    class Press:
        took: np.ndarray = sr.feature_list("timedelta64[ms]")

    random = np.random.default_rng(0)
    sr.write([Press(random.integers(20, 40, 50).astype("m8[ms]")) for _ in range(5)], tmp_path / "presses")
    assert "took" not in str(sr.report(tmp_path / "presses", tmp_path / "page.html"))


def test_a_selection_has_a_report(flawed):
    """One split alone is compared with none."""
    found = sr.report(sr.open(flawed)["eval"][:50])
    assert found.stats.records == 50
    assert "There is only one split." in found.html


def test_a_report_is_short_in_a_line_and_a_table_in_notebooks(report):
    """It prints its findings; the page is only what `html` is."""
    assert repr(report).endswith(f"{len(report.findings)} findings: 4 wrong, 9 to look at, 1 good to know>")
    assert len(str(report).splitlines()) == 1 + len(report.findings)
    assert report._repr_html_().count("<tr>") == 1 + len(report.findings)


@pytest.mark.usefixtures("no_plans")
def test_groups_and_times_that_are_named_leak(tmp_path):
    """`by` and `time` name what no two splits should share, as for `leakage`."""
    rng = np.random.default_rng(0)
    start = np.datetime64("2026-01-01", "s")
    parts = {"train": range(40), "eval": range(36, 60)}
    sr.write(
        {split: [Series(f"{split}{n}", f"g{n}", start + n, rng.normal(size=4), [0, 1, 0, 1]) for n in numbers]
         for split, numbers in parts.items()},
        tmp_path / "corpus",
    )  # fmt: skip
    found = sr.report(tmp_path / "corpus", by="label", time="start")
    assert {("shared groups", "train and eval"), ("shared times", "train and eval")} <= rules_of(found)
    with pytest.raises(SchemaError, match="did you mean"):
        sr.report(tmp_path / "corpus", by="lable")


@pytest.mark.usefixtures("no_plans")
def test_keys_of_cut_records_are_no_leak(tmp_path):
    """Parts of a record that `write` cut in time have its key in two splits, as they should."""

    @sr.record
    class Log:
        name: str = sr.context(str, key=True)
        day: np.ndarray = sr.feature_list("datetime64[D]")

    days = np.datetime64("2026-01-01", "D") + np.arange(9)
    splits = {"train": ..., "eval": "2026-01-05"}
    sr.write([Log("a", days), Log("b", days[1:])], tmp_path / "logs", splits=splits, time="day", straddling="cut")
    [found] = [finding for finding in sr.report(tmp_path / "logs").findings if finding.rule == "shared keys"]
    assert found.level == "note"
    assert "were cut where a split begins" in found.message


@pytest.mark.usefixtures("no_plans")
@pytest.mark.parametrize(
    ("damage", "compression"),
    [("byte", None), ("byte", "GZIP"), ("truncated", None), ("truncated", "GZIP"), ("gone", None), ("lengths", None),
     ("manifest", None)],
)  # fmt: skip
def test_damage_is_reported(tmp_path, damage, compression):
    """Whatever is broken, there is a report, which says so, and is about what can be read."""
    rng = np.random.default_rng(0)
    path = tmp_path / "corpus"
    sr.write({"train": [series(n, rng) for n in range(60)], "eval": [series(n, rng) for n in range(60, 80)]}, path,
             shards=2, compression=compression)  # fmt: skip
    shard = min((path / "train").glob("*.tfrecord*"))
    data = bytearray(shard.read_bytes())
    if damage == "byte":
        data[len(data) // 2] ^= 0xFF
        shard.write_bytes(data)
    elif damage == "truncated":
        shard.write_bytes(data[: len(data) // 2])
    elif damage == "gone":
        shard.unlink()
    elif damage == "lengths":
        min((path / "train").glob("*.lengths")).unlink()
    else:
        (path / "manifest.json").write_text("{")
    found = sr.report(path)
    rules = {rule for rule, _ in rules_of(found)}
    assert "damaged files" in rules
    if damage == "manifest":
        assert found.stats is None
        return
    lost = 80 - found.stats.records
    assert ("unreadable records" in rules) == (lost > 0)
    assert lost == 0 if damage == "lengths" else lost >= 1 if damage == "byte" else lost == 30
    assert "Strategies cannot be compared" in found.html


def test_what_is_no_dataset_is_refused(tmp_path):
    """There is nothing to report of no dataset, and of no record."""
    with pytest.raises(DatasetNotFoundError):
        sr.report(tmp_path / "nothing")
    with pytest.raises(OptionError, match="batch_size: expected an int of 1 or more, got None"):
        sr.report(tmp_path / "nothing", batch_size=None)
    sr.write([], tmp_path / "empty", schema=Series)
    with pytest.raises(OptionError, match="expected records, got none"):
        sr.report(tmp_path / "empty")


@pytest.mark.usefixtures("no_plans")
def test_extreme_values_have_a_report(tmp_path):
    """The ends of every type, nothing but NaN, None, empty and constant values: each has its place."""

    def moments() -> np.ndarray:
        return np.full((3, 2), np.datetime64("2026-01-01", "s"))

    @sr.record
    class Extreme:
        huge: int = sr.context("int64", default=2**63 - 1)
        top: int = sr.context("uint64", default=2**64 - 1)
        never: int | None = sr.context("int32", optional=True, default=None)
        when: np.datetime64 = sr.context("datetime64[ns]", default=np.datetime64("2026-01-01", "ns"))
        wide: np.ndarray = sr.feature_list("float64", default=())
        wholes: np.ndarray = sr.feature_list("int64", default=(), align=None)
        gone: np.ndarray = sr.feature_list("float32", shape=(2,), align=None, default=())
        late: np.ndarray = sr.feature_list("timedelta64[s]", align=None, default=())
        spans: np.ndarray = sr.feature_list("datetime64[s]", shape=(2,), align=None, factory=moments)
        waves: np.ndarray = sr.feature_list("complex128", align=None, default=())
        frames: np.ndarray = sr.feature_list("uint8", shape=(2, 2, 3), align=None, default=())
        ragged: list = sr.feature_list("bfloat16", shape=(None,), align=None, default=())
        sparse: object = sr.feature_list("float32", sparse=9, align=None, default=())
        flags: np.ndarray = sr.feature_list("bool", align=None, default=())
        blobs: list = sr.feature_list(bytes, align=None, default=())

    ends, nat = [-1.7e308, 1.7e308, 5e-324, np.inf, -np.inf, np.nan], np.timedelta64("NaT", "s")
    full = Extreme(
        wide=ends, wholes=[-(2**63), 2**63 - 1, 0], gone=np.full((3, 2), np.nan, "f4"), late=np.array([nat, nat]),
        waves=[1e308 + 1e308j, 0], frames=np.zeros((2, 2, 2, 3), "u1"), ragged=[[], [1, 2]],
        sparse=[sr.SparseVector([3], [1.5], 9)], flags=[True, False], blobs=[b"\xff", b""],
    )  # fmt: skip
    sr.write({"train": [full, Extreme(), full], "eval": [Extreme()], "test": []}, tmp_path / "corpus")
    found = sr.report(tmp_path / "corpus")
    assert {
        ("infinite values", "wide"),
        ("None", "never"),
        ("missing values", "gone"),
        ("exact copies", ""),
    } <= rules_of(found)
    assert "Every channel is always 2026-01-01T00:00:00." in [each.message for each in found.findings]
    assert all(f"<h3>{name}</h3>" in found.html for name in found.stats)
    assert not re.search(r'(?:d|x|y|width)="[^"]*(?:nan|inf)', found.html)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A report on more fields, splits and values than there is room for, with hostile texts everywhere."""
    names = {f"{'x' * 70}_{at}": sr.context(str) for at in range(30)}
    names |= {f"list_{at}": sr.feature_list("float32", shape=(4,)) for at in range(16)}
    notes = {name: np.ndarray if name.startswith("list") else str for name in names}
    wide_class = sr.record(type("Wide", (), {**names, "__annotations__": notes}))
    rng = np.random.default_rng(0)

    def record() -> object:
        texts = [HOSTILE * 3 + str(rng.integers(0, 30)) for _ in range(30)]
        return wide_class(*texts, *(rng.normal(size=(3, 4)).astype("f4") for _ in range(16)))

    path = tmp_path_factory.mktemp("wide") / "corpus"
    sr.write({f"split{at}": [record() for _ in range(10)] for at in range(9)}, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(survey, "compare", not_compared)
        return sr.report(path)


def test_what_data_say_is_never_markup(wide):
    """Texts of the data are text: no script, no image, no control character gets into the page."""
    assert "got in" in wide.html
    assert not re.search(r"<script|<img|onerror=[^&]*>|[\x00-\x09\x0b-\x1f\x7f\u202e]", wide.html)
    tags = set(re.findall(r"<(\w+)", wide.html))
    assert tags <= {"html", "head", "meta", "link", "title", "style", "body", "header", "p", "h1", "h2", "h3", "h4",
                    "nav", "a", "main", "section", "ol", "ul", "li", "span", "b", "table", "caption", "thead", "tbody",
                    "tr", "th", "td", "div", "figure", "figcaption", "details", "summary", "svg", "path", "rect",
                    "text", "code"}  # fmt: skip


def test_a_page_has_less_than_two_megabytes(wide):
    """Fields, channels, splits and values beyond some number are counted, not shown."""
    assert len(wide.html.encode()) < 2_000_000
    assert re.search(r"And \d+ more fields", wide.html)


CHECKS = """(() => {
  const problems = [];
  const shown = element => element.getClientRects().length > 0;
  const hex = text => text.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = hex(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  document.querySelectorAll('details').forEach(each => each.open = true);
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) problems.push('the page scrolls sideways');
  let texts = 0, colours = 0;
  for (const element of document.querySelectorAll('body *')) {
    if (!shown(element) || element.closest('thead')) continue;
    const box = element.getBoundingClientRect();
    if (box.right > width + 1 || box.left < -1) problems.push('cut: ' + element.tagName + ' ' + box.right);
    const style = getComputedStyle(element);
    const inSvg = element.closest('svg');
    if ([...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) {
      texts += 1;
      const colour = hex(inSvg ? style.fill : style.color);
      if (ratio(colour, behind(element)) < 4.5) problems.push('contrast: ' + element.outerHTML.slice(0, 90));
      if (!inSvg && element.scrollWidth > element.clientWidth + 1 && style.display !== 'inline')
        problems.push('text is cut: ' + element.outerHTML.slice(0, 90));
    }
    for (const paint of inSvg && element !== inSvg && element.tagName !== 'text' ? [style.stroke, style.fill] : []) {
      if (paint === 'none' || style.opacity < 1) continue;
      colours += 1;
      if (ratio(hex(paint), behind(inSvg)) < 3) problems.push('colour: ' + element.outerHTML.slice(0, 90));
    }
  }
  for (const link of document.querySelectorAll('a')) {
    const target = link.getAttribute('href');
    if (!target.startsWith('#') || !document.getElementById(target.slice(1))) problems.push('link: ' + target);
  }
  for (const svg of document.querySelectorAll('svg')) {
    if (svg.getAttribute('role') !== 'img' || !svg.getAttribute('aria-label')) problems.push('nameless picture');
    const place = svg.closest('figure, .card');
    if (!place || !place.querySelector('table')) problems.push('a picture without a table');
    for (const text of svg.querySelectorAll('text'))
      if (text.getBoundingClientRect().right > svg.getBoundingClientRect().right + 1)
        problems.push('cut in a picture: ' + text.textContent);
  }
  const pictures = document.querySelectorAll('svg').length;
  return {problems: [...new Set(problems)].slice(0, 20), texts, colours, pictures, title: document.title,
          dark: luminance(hex(getComputedStyle(document.body).backgroundColor)) < 0.1};
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = find_chromium()
    if program is None:
        assert os.environ.get("CI") != "true", "the report is tested in a browser: apt-get install chromium"
        pytest.skip("no chromium here: apt-get install chromium")
    profile = tmp_path_factory.mktemp("chromium")
    found = Chromium(program, profile)
    yield found
    found.close()
    shutil.rmtree(profile, ignore_errors=True)


@pytest.mark.parametrize(
    ("width", "dark"),
    all_at_night(itertools.product([360, 1200], [False, True]), [(360, False), (1200, True)]),
)
def test_the_page_is_whole_in_a_browser(browser, report, tmp_path, width, dark):
    """On a phone and on a desk, light and dark: nothing is cut, all is legible, links lead somewhere, no error."""
    report.save(tmp_path / "report.html")
    browser.show(tmp_path / "report.html", width=width, dark=dark)
    browser.screenshot(tmp_path / "report.png")
    print(f"{len(FLAWS)} flaws of {len(FLAWS)} are found: {tmp_path / 'report.png'}")  # noqa: T201 - for who looks at it
    checked = browser.run(CHECKS)
    assert checked["problems"] == []
    assert checked["dark"] == dark
    assert min(checked["texts"], checked["colours"], checked["pictures"]) > 50
    methods = {event["method"] for event in browser.events}
    assert not methods & {"Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"}
    asked = [
        event["params"]["request"]["url"] for event in browser.events if event["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_paper_is_light_and_has_the_tables(browser, report, tmp_path):
    """In print all is dark on light, whatever the theme, and tables stand open."""
    report.save(tmp_path / "report.html")
    browser.show(tmp_path / "report.html", width=700, dark=True, media="print")
    closed = "[...document.querySelectorAll('details table')].filter(each => !each.checkVisibility()).length"
    assert browser.run(closed) == 0
    checked = browser.run(CHECKS)
    assert (checked["problems"], checked["dark"]) == ([], False)


def test_hostile_data_do_nothing_in_a_browser(browser, wide, tmp_path):
    """The page of hostile texts runs nothing, and is whole on a phone."""
    wide.save(tmp_path / "wide.html")
    browser.show(tmp_path / "wide.html", width=360, dark=False)
    checked = browser.run(CHECKS)
    assert checked["problems"] == []
    assert checked["title"].startswith("Report on ")
    assert not {event["method"] for event in browser.events} & {"Page.javascriptDialogOpening", "Log.entryAdded"}


@sr.record
class Sampled:
    stage: np.ndarray = sr.feature_list("int64")
    sound: np.ndarray = sr.feature_list("float32", align=None)


def test_missing_values_beyond_the_usual_length_are_later(tmp_path):
    """A list that is much longer than its record has no exact steps for what it lacks at the end: they are later."""
    sound = np.where((np.arange(500) >= 100) & (np.arange(500) < 140), np.nan, 1).astype("float32")
    sr.write((Sampled(range(20 + n), sound) for n in range(20)), tmp_path / "d")
    [lack] = [each for each in sr.report(tmp_path / "d", tmp_path / "r.html").findings if each.rule == "missing values"]
    assert "90% of them at steps 47 and later" in lack.message


def test_quantiles_of_many_times_are_left_out(tmp_path):
    """Beyond 65,536 distinct times, quantiles and the histogram are unknown, and no approximation stands there."""

    @sr.record
    class Log:
        time: np.ndarray = sr.feature_list("datetime64[s]")

    seconds = np.random.default_rng(0).permutation(270 * 86_400)[:66_000]
    times = np.datetime64("2025-01-01", "s") + np.sort(seconds)
    sr.write({"train": [Log(times)], "eval": [Log(times[-900:])]}, tmp_path / "logs")
    sr.report(tmp_path / "logs", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    section = page[page.index("<h3>time</h3>") :].partition("<h3>")[2].partition("</section>")[0]
    assert "Too many distinct times for a histogram." in section
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", section)
    assert cells[3:7] == [str(times[0]), "-", "-", "-"]
    few = np.quantile(times[-900:].view("int64"), [0, 0.01, 0.5, 0.99]).round().astype("datetime64[s]")
    assert cells[13:17] == [str(time) for time in few]
