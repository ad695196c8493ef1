"""Lines of scripts that ran, and those that did not."""

import ast

import pytest

from seqrecorder.legacy.migrate.verify.coverage import in_words, lines_left, lines_run

OLD = """
def choose(x):
    if x > 1:
        return "large"
    return "small"

def parse(record, kind):
    if kind:
        return choose(record)
    raise ValueError

def batches(files):
    queue = producer(files)
    for name in files:
        def inner(y):
            return y
        print(inner(name))
    return queue

def count(files):
    if files:
        return len(files)
    return 0
"""
NEW = OLD.replace("queue = producer(files)", "queue = dataset(files).map(parse)")


def test_lines_that_run_are_noted():
    """Lines of one file are noted while it is asked for, and those of no other file."""
    names, ran = {}, set()
    exec(compile(OLD, "old.py", "exec"), names)  # noqa: S102 - our own text
    with lines_run("old.py", ran):
        assert names["choose"](2) == "large"
    names["choose"](1)
    assert ran == {3, 4}
    with lines_run("other.py", ran):
        names["choose"](1)
    assert ran == {3, 4}


def test_lines_left_are_those_of_what_does_something_else_now():
    """What changed, and what is mapped over records and called from there, counts; what never ran does not."""
    old, new = ast.parse(OLD), ast.parse(NEW)
    assert lines_left(old, new, {3, 4, 8, 9, 13, 14, 17, 18, 21}) == [5]
    assert lines_left(old, new, {8, 13, 14, 18}) == [9, 17]
    assert lines_left(old, new, set()) == []
    assert lines_left(old, old, {3, 8, 13, 21}) == []


def test_lines_in_words():
    """Neighbours are told as one range."""
    assert in_words([4]) == "line 4"
    assert in_words([1, 2, 4, 6, 7, 8]) == "lines 1-2, 4, 6-8"


def test_functions_are_told_apart_by_their_classes():
    """A method that changed is not one of the same name in another class; what guards and what logs is not counted."""
    text = """
class A:
    def read(self, x):
        if not x:
            print("no files")
            raise OSError
        if x > 3:
            tf.logging.info("many")
        return batch(x)

class B:
    def read(self, x):
        if x:
            return 1
        return 2
"""
    new = text.replace("batch(x)", "dataset(x)")
    assert lines_left(ast.parse(text), ast.parse(new), {4, 7, 13, 15}) == [9]


@pytest.mark.parametrize(
    ("call", "left"),
    [("_read(x, True)", [8]), ("_read(x, many=False)", [6]), ("_read(*x)", [6, 8]), ("map(_read, x)", [6, 8])],
)
def test_arms_that_no_call_comes_to_are_not_left(call, left):
    """A function for itself alone takes one way only, where its calls give it constants; where one does not, both."""
    old = f"""
def f(x):
    return {call}
def _read(x, many):
    if not many:
        x = none(x)
    else:
        x = batch(x)
    return x
"""
    assert lines_left(ast.parse(old), ast.parse(old.replace("(x)\n", "(y)\n")), {3, 5, 9}) == left
