"""A function of a script, called alone: in a graph whose queues run, or eagerly.

Of the script only imports, definitions and plain values are carried out, and of a pipeline that the module itself makes
the statements that it needs. What the script takes from elsewhere is stood in for.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import itertools
import math
import operator
import random
import shutil
import tempfile
import types
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from seqrecorder.legacy.compatibility import compat
from seqrecorder.legacy.migrate.analyze.data_flow import own_nodes, reads
from seqrecorder.legacy.migrate.normalize.python2 import as_python3
from seqrecorder.legacy.migrate.verify.capture import (
    NOTE,
    PASS,
    StoppedError,
    batches_among,
    hangs,
    is_tensor,
    last_change,
    line_of,
    lines_of,
    passed,
    prepare,
    sessions_stopped,
)
from seqrecorder.legacy.migrate.verify.conditions import Conditions, attributes_tested, deviations, uses
from seqrecorder.legacy.migrate.verify.coverage import functions_of, lines_run, scope_of
from seqrecorder.legacy.migrate.verify.definitions import (
    defined,
    module_pipeline,
    outermost,
    outputs_of,
    with_literals,
    with_main,
)
from seqrecorder.legacy.migrate.verify.equality import brief, flat, structure
from seqrecorder.legacy.migrate.verify.modules import Version, lacking
from seqrecorder.legacy.migrate.verify.parameters import candidates, constructing
from seqrecorder.legacy.migrate.verify.records import watched
from seqrecorder.legacy.migrate.verify.refusals import CannotTryError, ForeignFileError
from seqrecorder.legacy.migrate.verify.sessions import (
    as_arrays,
    divided,
    graph,
    is_shuffled,
    one_thread_each,
    runners_added,
    together,
    until_the_end,
)
from seqrecorder.legacy.migrate.verify.stand_ins import (
    QueueOfFiles,
    StandIn,
    ending,
    forgiving,
    is_file,
    known_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from seqrecorder.legacy.migrate.verify.records import Asked

MOST = 24
"""How many batches are taken of an endless pipeline."""

_Problem = tuple[tuple[list[int], int], str]
"""How far a call came, the lines of the function and of those that it called, and the error there."""

_CHOICES = 40  # of arguments
_NAMES = 20  # that a script may lack


class Callee:
    """One function of a script.

    Args:
        text: of the script.
        name: of the function; of its class and of itself with a point between; or `<module>`.
        target: `graph` or `eager`.
        literals: constants of the script that others take the place of.
        other: the other version of the script.
        version: of the other modules of its project.
        old: whether it is written for TensorFlow 1, and finds that.

    Attributes:
        ending: of the names of the files that it reads.
        ran: the lines of the script that ran for the last batches.
        groups: places of tensors that come together: of each place, or out of the same queue.
        at: of those, which are run.
        structure: of the last batches, in words.
        divided: whether chance decides what the last batches hold.
        kept: tensors that hang on records, by the names that hold them, where they are not returned.
        common: those names, of which both versions have batches; None where all count.
        failed: statements that failed, and were passed over.
        seconds: of a processor that its batches may take.
    """

    def __init__(
        self, text: str, name: str, target: str, literals: Mapping[Any, Any], *, other: str, version: Version, old: bool
    ) -> None:
        self.target, self._old, self._version = target, old, version
        text, other = (with_literals(as_python3(each), literals) for each in (text, other))
        self.tree, others = (with_main(ast.parse(each)) for each in (text, other))
        held = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, held, ignore_errors=True)
        place = Path(held, "script.py")  # a file, because AutoGraph looks for the source code
        place.write_text(text, encoding="utf-8")
        self._text = text
        self._place, self._name, self.ending = str(place), name, ending(text)
        self._conditions = Conditions.of(self.tree)
        self._uses = uses(self.tree if old else others)
        StandIn.given = {n: "worker" if "worker" in texts else texts[0] for n, texts in self._conditions.texts.items()}
        self._constructs = False
        self._usual: dict[str, Any] = {}
        self._unsaid: dict[str, Any] = {}
        self.namespace: dict[str, Any] = {}
        self.ran: set[int] = set()
        self.groups: list[list[int]] = []
        self.at = 0
        self.structure = ""
        self.divided = False
        self.kept: dict[str, Any] = {}
        self.common: set[str] | None = None
        self.failed: set[str] = set()
        self.seconds = math.inf
        self._outputs = outputs_of(self.tree) & outputs_of(others)
        self._code, self._last = copy.deepcopy(self.tree), 0
        scopes = [scope_of(tree, name) for tree in (self.tree, others, self._code)]
        if scopes[0] is not None and scopes[1] is not None and scopes[2] is not None:
            self._last = last_change(scopes[0], scopes[1])
            prepare(scopes[2], scopes[1], self._last)
        with self._behaving():
            self.namespace = defined(self._code, self._place, v1=target == "graph", package=version.package)
        self.namespace |= {NOTE: self._note, PASS: self._passed}

    def _note(self, names: dict[str, Any]) -> None:
        self.kept = batches_among(names, old=self._old) if self.target == "graph" else {}

    def _passed(self, text: str, targets: list[str]) -> Any:
        value = passed(text, targets, self._uses)
        self.failed.add(text)
        return value

    @property
    def function(self) -> ast.FunctionDef | None:
        """The definition of what is called; None for a module, and for what there is none of."""
        return dict(functions_of(self.tree)).get(self._name)

    @property
    def absent(self) -> list[str]:
        """What it names of modules that are not there, and are stood in for."""
        made = {name for name, value in self.namespace.items() if getattr(value, "_mock_name", None) == name}
        return sorted({*(made & reads(self.function or self.tree)), *lacking})

    def like(self, other: Callee) -> None:
        """Take over what another version of the script found that it lacks."""
        for name in other.namespace:
            if name not in self.namespace or getattr(self.namespace[name], "_mock_name", None) == name:
                self.namespace[name] = other.namespace[name]
        self._constructs = other._constructs

    def arguments(self, paths: list[Path]) -> Iterator[tuple[dict[str, Any], Asked]]:
        """Yield arguments under which the function builds a graph, and what it asks of records then.

        Raises:
            CannotTryError: there are none.
        """
        names = StandIn.files = [str(path) for path in paths]
        StandIn.given |= {name: names for name, use in self._uses.items() if use == "files" and not is_file(name)}
        StandIn.opened = False
        problems: list[_Problem] = []
        yield from self._arguments(names, problems)
        if "." in self._name and not self._name.endswith("__init__"):
            self._constructs = True  # what the method finds may be what the constructor made
            yield from self._arguments(names, problems)
        every = {*range(len(self._text))}  # flags may keep it from its batches
        yield from ((values, asked) for _, values, asked in self.others(self._usual, every))
        if problems:
            _, furthest = max(problems, key=operator.itemgetter(0))
            raise CannotTryError(f"the old function cannot be called: {furthest}")

    def _arguments(self, names: list[str], problems: list[_Problem]) -> Iterator[tuple[dict[str, Any], Asked]]:
        function = self._function()
        choices = [choice for choice in candidates(function, names, self._conditions.texts, self._uses) if choice]
        usual = self._usual = dict(choice[0] for choice in choices)
        others = {choice[0][0]: choice[1:] for choice in choices}
        unsaid = self._unsaid = {name: rest[0][1] for name, rest in others.items() if rest and usual[name] is None}
        reached, furthest = dict[str, Any](), (list[int](), -len(self._text))
        first = [{}, unsaid] if unsaid else [{}]  # what has no value of its own has none alone, or has one altogether
        for chosen in itertools.chain(first, itertools.islice(deviations(others), 1, _CHOICES)):
            values = usual | reached | chosen
            asked = self._asked(values, problems)
            if asked is None:
                if problems[-1][0] > furthest:  # what gets further is a better start
                    reached, furthest = reached | chosen, problems[-1][0]
                continue
            here = Path(names[0]).parent.resolve()
            own = here.parent.parent.parent
            foreign = [name for name in asked.files if not (here / name).resolve().is_relative_to(own)]
            if foreign and foreign[0] not in names[0]:  # else a letter of a name was taken for one
                raise ForeignFileError(foreign[0])
            given = {str(one) for value in values.values() for one in (value if isinstance(value, list) else [value])}
            unread = not asked.reader and not asked.whole_files and not StandIn.opened and given & {*names}
            if foreign or unread:
                problems.append((([len(self._text)], 0), "it reads no files"))
                continue
            yield values, asked

    def _asked(self, values: dict[str, Any], problems: list[_Problem]) -> Asked | None:
        """Return what a call asks, None where it fails; names that the script lacks are stood in for."""
        for _ in range(_NAMES):
            try:
                with watched() as asked, graph():
                    self.call(values)
            except NameError as error:
                name = error.name
                if not name or name in self.namespace or isinstance(error, UnboundLocalError):
                    problems.append(((lines_of(error, self._place), -len(self.failed)), brief(error)))
                    return None
                known = known_value(name) if not name.endswith("files") else None
                file: Any = StandIn()
                if is_file(name) and StandIn.files and f"{name}(" not in self._text:
                    file = [*StandIn.files] if name.endswith("s") else StandIn.files[0]
                self.namespace[name] = file if known is None else known
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's code raises
                problems.append(((lines_of(error, self._place), -len(self.failed)), brief(error)))
                return None
            else:
                return asked
        problems.append((([], 0), f"it lacks more than {_NAMES} names"))
        return None

    def others(self, values: dict[str, Any], left: set[int]) -> Iterator[tuple[str, dict[str, Any], Asked]]:
        """Yield further arguments: other positions of switches, and other modes; and what they are, in words.

        Args:
            values: the first ones.
            left: lines that have not run yet, for which attributes that they hang on are changed too.
        """
        threads = {name: 2 for name in values if "thread" in name.lower()}
        attributes = {name: getattr(StandIn(), name) for name in sorted(attributes_tested(self.tree, left))}
        known = {f".{name}": value for name, value in attributes.items()} | values
        for changed in self._conditions.positions(known):
            # Some scripts refuse to shuffle with one thread, or to crop where they are not told how much.
            for more in (changed, changed | threads, self._unsaid | changed):
                asked = self._asked({**values, **more}, []) if more is changed or more != changed else None
                if asked is not None:
                    yield ", ".join(f"{name}={value!r}" for name, value in more.items()), {**values, **more}, asked
                    break

    def _function(self) -> Callable[..., Any]:
        """Return what is called."""
        if self._name == "<module>":
            return self._carry_out
        outer, _, method = self._name.partition(".")
        if not method:
            return self.namespace[outermost(self.tree, outer)]  # type: ignore[no-any-return]
        kind = self.namespace.get(outer)
        if not isinstance(kind, type):
            raise CannotTryError(f"the class {outer} cannot be made without what the script imports")
        stand_in = StandIn()
        lacking = {"__getattr__": lambda _, name: getattr(stand_in, name), "__module__": "migrated"}
        bare = type(outer, (kind,), lacking | {"__init__": lambda _: None})
        method = f"_{outer.lstrip('_')}{method}" if method.startswith("__") and not method.endswith("__") else method
        if self._constructs:
            return constructing(kind, method)
        member = inspect.getattr_static(kind, method)
        return types.MethodType(getattr(member, "fget", member), bare())

    def _carry_out(self) -> None:
        namespace = dict(self.namespace)
        try:
            module_pipeline(self._code, self._place, namespace, self._outputs)
        finally:
            self._note({name: namespace[name] for name in self._outputs if name in namespace})

    def call(self, values: dict[str, Any]) -> Any:
        """Return what the function returns, called if it is a function, or the tensors that it keeps."""
        self.kept, self.failed = {}, set()
        with self._behaving(), sessions_stopped(self._place, old=self._old), contextlib.ExitStack() as stack:
            attributes = {name[1:]: value for name, value in values.items() if name.startswith(".")}
            stack.enter_context(mock.patch.dict(StandIn.given, attributes))
            values = {
                name: value.made() if isinstance(value, QueueOfFiles) else value
                for name, value in values.items()
                if not name.startswith(".")
            }
            result = None
            try:
                result = self._function()(**values)
                result = result() if isinstance(result, types.FunctionType) else result
            except StoppedError:
                pass
            except Exception as error:
                if (
                    self._gives
                    or not self.kept
                    or line_of(error, self._place, self._name.rpartition(".")[2]) <= self._last
                ):
                    raise
        if not self.kept or any(hangs(item, old=self._old) for item in flat(result)):
            self.kept = {}
            return result
        return {name: items for name, items in self.kept.items() if self.common is None or name in self.common}

    @property
    def _gives(self) -> bool:
        """Whether the function returns something, which is its batches if it has any."""
        nodes = own_nodes(self.function) if self.function is not None else ()
        return any(isinstance(node, ast.Return) and node.value is not None for node in nodes)

    def batches(self, values: dict[str, Any], most: int = MOST) -> tuple[list[Any], bool]:
        """Return the batches that the function gives, flat, and whether their order was left to chance."""
        import tensorflow as tf

        self.ran = set()
        if self.target == "eager":
            with contextlib.suppress(tf.errors.OutOfRangeError):
                [dataset] = [item for item in flat(self.call(values)) if isinstance(item, tf.data.Dataset)]
                self.structure = structure(dataset.element_spec)
                found = [tf.nest.flatten(as_arrays(item)) for item in itertools.islice(dataset, most)]
                return [self._together(batch) for batch in found], False
        v1 = tf.compat.v1
        with graph():
            with contextlib.ExitStack() as stack:
                if self._old:
                    stack.enter_context(runners_added())
                    stack.enter_context(lines_run(self._place, self.ran))
                given = self.call(values)
                tensors, self.structure = [item for item in flat(given) if is_tensor(item)], structure(given)
            built = v1.get_default_graph()  # the function may have made another one
            if not tensors:
                return [], False
            session = v1.Session(graph=tensors[0].graph)
            with tensors[0].graph.as_default():
                self.by_chance = one_thread_each()
                shuffled = is_shuffled(built) or is_shuffled(tensors[0].graph)
                self.divided = divided()
                if self._old:
                    self.groups = together(tensors) if shuffled else [[*range(len(tensors))]]
                tensors = self._together(tensors)
                starting = [
                    v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()
                ]  # fmt: skip
                session.run(starting)
                coordinator = v1.train.Coordinator()
                threads = v1.train.start_queue_runners(session, coordinator)
            found = list(until_the_end(session, tensors, most, self.seconds))
            if self.kept:
                self.ran |= set(range(self._last + 1, len(self._text)))  # which is not run
            coordinator.request_stop()
            with contextlib.suppress(RuntimeError):  # threads that are late
                coordinator.join(threads, stop_grace_period_secs=5)
            session.close()
        return found, shuffled

    def _together(self, parts: list[Any]) -> list[Any]:
        """Return those of the group that is run; all, where they are other ones than the groups are of."""
        known = sum(map(len, self.groups)) == len(parts)
        return [parts[place] for place in self.groups[self.at]] if known else parts

    @contextlib.contextmanager
    def _behaving(self) -> Iterator[None]:
        """Let old code find its TensorFlow, with as much of contrib as there is."""
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - which scripts draw from
        import tensorflow as tf

        with compat() as old:
            contrib = old.contrib  # of which a rewritten script may name what models need, after its batches
        behaving = compat() if self._old else mock.patch.object(tf.compat.v1, "contrib", contrib, create=True)
        with behaving, forgiving(), self._version.imported():
            yield
