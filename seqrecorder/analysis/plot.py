"""`plot`: matplotlib figures of the feature lists of records, over steps or time.

Pictures for notebooks, which need no matplotlib, are in `seqrecorder.schema.display`.
"""

from __future__ import annotations

import importlib.util
import itertools
import logging
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.errors import OptionError
from seqrecorder.schema.display import cut, join, numbers_of_steps
from seqrecorder.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field

_MOST_RECORDS = 16
_MOST_CURVES = 6
_MOST_TEXTS, _TEXT_WIDTH = 40, 14
_MOST_IMAGES = 12
_WIDTH, _HEIGHT, _THIN = 11.0, 1.7, 0.9
_IMAGE_RANK, _IMAGE_CHANNELS = 3, (1, 3, 4)
_MISSING = "#d62728"
_LOG = logging.getLogger("seqrecorder")


def plot(records: Any, fields: Sequence[str] | None = None, *, time: str | None = None, width: float = _WIDTH) -> Any:
    """Draw a record, or several one below the other, as a `matplotlib.figure.Figure`.

    Feature lists of up to six channels are drawn as curves (stepped for whole numbers), and wider ones as heat maps.
    Bools are drawn as ticks, texts along the axis, and images as a strip. Missing values are red.

    >>> import numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Series:
    ...     key: str = sr.context(str)
    ...     price: np.ndarray = sr.feature_list("float64")
    >>> figure = sr.plot(Series("a", [1.0, 2.0, float("nan"), 4.0]))
    >>> figure.savefig("/dev/null", format="png")

    Args:
        records: record, selection, or other iterable of records.
        fields: names of the feature lists to draw; None for all.
        time: name of a feature list of times or numbers to use as the horizontal axis of its alignment group; None to
            use the first feature list of times in each group; `""` to use step numbers. Step numbers are also used if
            times go backwards or are missing.
        width: width of the figure in inches.

    Raises:
        OptionError: matplotlib is not installed, there is nothing to draw, there are more than 16 records, or `time`
            does not name a feature list of times or numbers.
        SchemaError: `fields` or `time` names a field that the record does not have.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise OptionError("plot needs matplotlib: pip install matplotlib")
    from matplotlib.figure import Figure

    examples = [records] if attrs.has(type(records)) else _first(records)
    if not examples:
        raise OptionError("plot: expected a record or more, got none")
    panels = [panel for record in examples for panel in _panels(record, fields, time)]
    figure = Figure(figsize=(width, sum(panel.height for panel in panels) + 0.6), layout="constrained")
    heights = [panel.height for panel in panels]
    axes = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for panel, ax in zip(panels, axes, strict=True):
        panel.draw(ax)
    return figure


def _first(records: Iterable[Any]) -> list[Any]:
    examples = list(itertools.islice(records, _MOST_RECORDS + 1))
    if len(examples) > _MOST_RECORDS:
        raise OptionError(f"plot: expected at most {_MOST_RECORDS} records, got more; plot some of them")
    return examples


def _panels(record: Any, fields: Sequence[str] | None, time: str | None) -> list[_Panel]:
    schema = Schema.of(record)
    chosen = schema.select(fields).fields
    clocks = {group: _clock(schema, record, group, time) for group in schema.groups}
    panels = []
    for field in chosen:
        clock = clocks.get(field.group) if field.is_list else None
        if field.is_list and not (clock is not None and fields is None and clock.name == field.name):
            panels.append(_Panel(field, getattr(record, field.name), clock))
    if not panels:
        names = [field.name for field in schema.fields if field.is_list]
        raise OptionError(f"plot: expected a feature list to draw; {schema.name} has {', '.join(names) or 'none'}")
    panels[0].title = _title(schema, record)
    return panels


def _title(schema: Schema, record: Any) -> str:
    first = sorted((field for field in schema.fields if field.is_scalar), key=lambda field: not field.key)
    return join([_printable(f"{field.name} {cut(str(getattr(record, field.name)), 40)}") for field in first], 6)


def _printable(text: str) -> str:
    """Replace characters that the fonts lack, and escape dollar signs, which begin formulas in matplotlib."""
    lacking = {c for c in text if not c.isascii() and not _has(c)}
    if lacking:
        _LOG.info("plot: no font for %s: matplotlib's rcParams['font.family'] names one that has it", sorted(lacking))
    return "".join(c if c.isprintable() and c not in lacking else "?" for c in text).replace("$", r"\$")


def _has(character: str) -> bool:
    """Check whether one of the configured fonts has a character.

    If all of them lack it, matplotlib logs a warning when it draws the character.
    """
    from matplotlib import font_manager, rcParams

    families = [font_manager.FontProperties(family=[name]) for name in rcParams["font.family"]]
    fonts = (font_manager.get_font(font_manager.findfont(family)) for family in families)
    return any(font.get_char_index(ord(character)) for font in fonts)


@attrs.frozen
class _Clock:
    """Values of the horizontal axis.

    Attributes:
        name: name of the field.
        values: value of each step, datetime64 or float64 `(T,)`.
        label: label of the axis, with the unit.
    """

    name: str
    values: NDArray[Any]
    label: str


def _clock(schema: Schema, record: Any, group: str, time: str | None) -> _Clock | None:
    """Choose the horizontal axis of an alignment group, or return None to use step numbers."""
    if time == "":
        return None
    members = [f for f in schema.members(group) if not f.shape and f.sparse is None and not f.element.is_text]
    if time is None:
        field = next((field for field in members if field.element.is_time), None)
    else:
        field = schema[time]
        if field not in members:
            if not field.is_list or field.shape or field.element.is_text:
                raise OptionError(f"time: expected a feature list of times or numbers, got {field!r}")
            return None  # the field belongs to another group
    values = None if field is None else getattr(record, field.name)
    if field is None or values is None or not len(values):
        return None
    array = np.asarray(values)
    missing = np.isnat(array) if array.dtype.kind in "mM" else ~np.isfinite(array.astype(np.float64))
    if missing.any() or (array[1:] < array[:-1]).any():
        return None  # unusable as an axis; drawn as an ordinary field instead
    if array.dtype.kind == "m":
        unit = np.datetime_data(array.dtype)[0]
        return _Clock(field.name, array.astype(np.int64).astype(np.float64), f"{field.name} ({unit})")
    return _Clock(field.name, array if array.dtype.kind == "M" else array.astype(np.float64), field.name)


@attrs.define
class _Panel:
    """Drawing of one feature list of a record."""

    field: Field
    value: Any
    clock: _Clock | None
    title: str = ""

    @property
    def _is_images(self) -> bool:
        shape = self.field.shape
        return len(shape) == _IMAGE_RANK and shape[-1] in _IMAGE_CHANNELS

    @property
    def height(self) -> float:
        """Height in inches."""
        is_line = self.field.element.is_text or self.field.element.name == "bool"
        is_thin = (is_line and not self.field.shape) or self.value is None or not len(self.value)
        return (_THIN if is_thin else _HEIGHT) + (0.3 if self.title else 0.0)

    def draw(self, ax: Any) -> None:
        """Draw the panel."""
        field = self.field
        if self.title:
            ax.set_title(self.title, fontsize=9, loc="left", fontweight="bold")
        ax.set_ylabel(_printable(cut(field.name, 24)), rotation=0, ha="right", va="center", fontsize=9)
        ax.tick_params(labelsize=8)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        if self.value is None or not len(self.value):
            self._say(ax, "None" if self.value is None else "no steps")
            return
        x = np.arange(len(self.value)) if self.clock is None else self.clock.values
        if field.is_ragged or field.sparse is not None:
            sizes = [len(item.indices if field.sparse is not None else item) for item in self.value]
            if self.clock is None:
                ax.bar(x, sizes, width=1.0)
            else:
                ax.vlines(x, 0, sizes)
            self._span(ax, x)
            ax.annotate("values of each step", (0.995, 0.9), xycoords="axes fraction", ha="right", fontsize=7)
        elif field.element.is_text:
            self._draw_texts(ax, x)
            return
        elif self._is_images:
            self._draw_images(ax)
            return
        else:
            self._draw_numbers(ax, x)
        ax.set_xlabel("step" if self.clock is None else self.clock.label, fontsize=8, labelpad=1)

    @staticmethod
    def _say(ax: Any, text: str) -> None:
        ax.set_xticks([])
        ax.set_yticks([])
        ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color="gray", fontsize=9)

    def _draw_numbers(self, ax: Any, x: NDArray[Any]) -> None:
        array = np.asarray(self.value)
        if array.dtype.name == "bool" and array.ndim == 1:
            ax.vlines(x[array], 0, 1, linewidth=1.2)
            ax.set_ylim(0, 1)
            ax.set_yticks([])
            self._span(ax, x)
            return
        values = numbers_of_steps(array)
        if values.shape[1] > _MOST_CURVES:
            self._draw_map(ax, x, values)
            return
        whole = array.dtype.kind in "iubmM"
        marker = "." if len(values) <= 60 else None  # noqa: PLR2004 - few enough to tell steps apart
        lines = ax.plot(x, values, drawstyle="steps-mid" if whole else None, linewidth=1.0, marker=marker)
        if values.shape[1] > 1:
            ax.legend(lines, [str(channel) for channel in range(len(lines))], fontsize=7, ncols=len(lines), loc="best")
        self._mark_missing(ax, x, np.asarray((~np.isfinite(values)).any(1)))
        self._span(ax, x)

    def _draw_map(self, ax: Any, x: NDArray[Any], values: NDArray[np.float64]) -> None:
        import matplotlib as mpl

        finite = values[np.isfinite(values)]
        # The colours span the central 99 %, so that outliers do not hide the rest.
        low, high = np.quantile(finite, [0.005, 0.995]) if finite.size else (0.0, 1.0)
        colours = mpl.colormaps["viridis"].with_extremes(bad=_MISSING)  # viridis has no red
        shown = np.ma.masked_invalid(values.T)
        if self.clock is None:
            mesh = ax.imshow(shown, aspect="auto", origin="lower", interpolation="nearest", cmap=colours,
                             vmin=low, vmax=high)  # fmt: skip
            self._span(ax, x)
        else:
            mesh = ax.pcolormesh(x, np.arange(len(shown)), shown, cmap=colours, shading="nearest",
                                 vmin=low, vmax=high, rasterized=True)  # fmt: skip
        ax.figure.colorbar(mesh, ax=ax, pad=0.01, aspect=12).ax.tick_params(labelsize=7)
        if shown.mask.any():
            text = f"{int(shown.mask.sum()):,} missing values in red"
            ax.annotate(text, (0.995, 1.02), xycoords="axes fraction", ha="right", fontsize=7)

    @staticmethod
    def _mark_missing(ax: Any, x: NDArray[Any], missing: NDArray[np.bool_]) -> None:
        """Draw a red span over each run of missing values, from the step before to the step after it."""
        edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(np.int8)))
        for start, stop in edges.reshape(-1, 2).tolist():
            ax.axvspan(x[max(start - 1, 0)], x[min(stop, len(x) - 1)], color=_MISSING, alpha=0.25, linewidth=0)
        if missing.any():
            text = f"{int(missing.sum()):,} steps with missing values"
            ax.annotate(text, (0.995, 1.02), xycoords="axes fraction", ha="right", fontsize=7, color=_MISSING)

    def _span(self, ax: Any, x: NDArray[Any]) -> None:
        """Set the limits of the axis so that it shows all steps, including steps without a value."""
        if self.clock is None:
            ax.set_xlim(-0.5, len(x) - 0.5)
            ax.xaxis.get_major_locator().set_params(integer=True)
        elif x.min() < x.max():
            ax.set_xlim(x.min(), x.max())

    def _draw_texts(self, ax: Any, x: NDArray[Any]) -> None:
        every = -(-len(self.value) // _MOST_TEXTS)
        ax.set_yticks([])
        ax.set_ylim(0, 1)
        self._span(ax, x)
        for at in range(0, len(self.value), every):
            item = self.value[at]
            text = item if isinstance(item, str) else repr(item) if isinstance(item, bytes) else str(item)
            shown = _printable(cut(text, _TEXT_WIDTH))
            slant = 0 if len(self.value) <= 12 else 60  # noqa: PLR2004 - few enough words to fit
            ax.text(x[at], 0.5, shown, rotation=slant, ha="center", va="center", fontsize=8)
        label = "step" if self.clock is None else self.clock.label
        ax.set_xlabel(label if every == 1 else f"{label}; one text of {every}", fontsize=8, labelpad=1)

    def _draw_images(self, ax: Any) -> None:
        count = min(len(self.value), _MOST_IMAGES)
        chosen = np.linspace(0, len(self.value) - 1, count).round().astype(int)
        images = [np.asarray(self.value[at]) for at in chosen.tolist()]
        if images[0].dtype == np.uint8:
            images = [image / 255 for image in images]
        high, wide = np.max([image.shape[:2] for image in images], 0)
        images = [np.pad(one, [(0, high - one.shape[0]), (0, wide - one.shape[1]), (0, 0)]) for one in images]
        gap = np.ones((high, max(1, wide // 16), images[0].shape[2]))
        strip = np.clip(np.concatenate([part for image in images for part in (image, gap)][:-1], 1), 0, 1)
        ax.imshow(strip[..., 0] if strip.shape[2] == 1 else strip, cmap="gray", aspect="equal")
        ax.set_yticks([])
        step = wide + gap.shape[1]
        ax.set_xticks([wide / 2 + at * step for at in range(count)], [str(at) for at in chosen.tolist()])
        ax.set_xlabel("step", fontsize=8, labelpad=1)
