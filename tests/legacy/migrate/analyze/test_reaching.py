"""Which statements a name may have its value from."""

import ast

import pytest
from old_scripts import script

from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.rewrite.script import rewrite

FLOWS = {
    "f(x); x = 1; f(x); x = 2; f(x)": ["", "1", "2"],
    "x = 1\nif c:\n x = 2\n f(x)\nf(x)": ["2", "1 2"],
    "x = 1\nif c:\n x = 2\nelse:\n x = 3\nf(x)": ["2 3"],
    "x = 1\nif c:\n x = 2\n raise e\nf(x)": ["1"],
    "x = 1\nfor i in y:\n f(x)\n x = 2\nf(x)": ["1 2", "1 2"],
    "x = 1\nwhile f(x):\n x = 2\n if c:\n  break\n x = 3\nf(x)": ["1 3", "1 2 3"],
    "x = 1\nfor i in y:\n if c:\n  continue\n x = 2\nf(x)": ["1 2"],
    "x = 1\ntry:\n x = 2\n x = 3\nexcept E:\n f(x)\nf(x)": ["1 2 3", "1 2 3"],
    "x = 1\ntry:\n x = 2\nfinally:\n f(x)\nf(x)": ["1 2", "1 2"],
    "x = 1\nwith a:\n x = 2\nf(x)": ["2"],
    "x = 1\nwith contextlib.suppress(E):\n x = 2\n g()\n x = 3\nf(x)": ["1 2 3"],
    "x = 1; x += 2; f(x)": ["+2"],
    "x = 1; y = [f(x) for i in z]; x = 2": ["1"],
    "x = 1\ndef g(): return f(x)\nx = 2": ["1 2"],
    "x = 1; del x; x = 2; f(x)": ["2"],
    "x = 1\nimport x\nf(x)": ["?"],
    "x = 1\nfor x in y: f(x)\nelse: f(x)": ["?", "1 ?"],
}


@pytest.mark.parametrize("text", FLOWS)
@pytest.mark.parametrize("inside", [False, True])
def test_values_are_followed_to_where_they_are_read(text, inside):
    """Each place where `f(x)` reads may have what Python would give it there, in functions as in modules."""
    tree = ast.parse(text)
    scope = tree
    if inside:
        scope = ast.FunctionDef("function", ast.parse("lambda: 0").body[0].value.args, tree.body, [])
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "f"]
    read = [n.args[0] for n in sorted(calls, key=lambda n: (n.lineno, n.col_offset)) if isinstance(n.args[0], ast.Name)]

    def said(statement):
        plain = isinstance(statement, (ast.Assign, ast.AugAssign)) and isinstance(statement.value, ast.Constant)
        return ("+" * isinstance(statement, ast.AugAssign) + str(statement.value.value)) if plain else "?"

    assert [" ".join(sorted(map(said, reaching(scope).of(name)), key=lambda s: (s == "?", s))) for name in read] == [
        *FLOWS[text]
    ]


def test_parameters_may_stay_what_was_given():
    """What a function is given reaches as far as it is not replaced."""
    [function] = ast.parse("def f(x):\n if x is None:\n  x = 1\n return x").body
    assert len(reaching(function).of(function.body[1].value)) == 2
    assert len(reaching(function).uses([function.body[0].body[0]], "x")) == 1


READ = "    queue = tf.train.string_input_producer(files)\n    _, record = tf.TFRecordReader().read(queue)\n"
BATCH = "    return tf.train.batch([record], 3)\n"
APART = {
    "before": "    queue, record = 1, 2\n    print(queue, record)\n" + READ + BATCH,
    "after": READ + BATCH.replace("return", "out =") + "    queue, record = 1, 2\n    return out, queue, record\n",
    "twice": "    for record in files:\n        print(record)\n    queue = len(files)\n    print(queue)\n"
    + READ
    + BATCH,
    "changed": READ
    + "    size = tf.size(record)\n"
    + BATCH.replace("record", "size")
    + "    size = 3\n    print(size)\n",
}


@pytest.mark.parametrize("target", ["graph", "eager"])
@pytest.mark.parametrize("case", APART)
def test_equal_names_of_other_values_do_not_matter(case, target):
    """A variable that has the name of a queue, or of a tensor, and another value is no use of it."""
    done = rewrite(script(APART[case]), target)
    assert done.status == "converted", done.findings


ANOTHER = {
    "queue": READ.replace("    _,", "    if len(files) > 1:\n        queue = files[0]\n    _,") + BATCH,
    "reader": (
        "    reader = tf.TFRecordReader()\n    if len(files) > 1:\n        reader = make()\n"
        + READ.replace("tf.TFRecordReader()", "reader") + BATCH
    ),
    "record": READ + "    out = tf.train.batch([record], 3)\n    return out, record\n",
    "conditional": "    record = 1\n    if files:\n" + READ.replace("    ", "        ") + BATCH,
}  # fmt: skip


@pytest.mark.parametrize("case", ANOTHER)
def test_what_may_have_another_value_stays(case):
    """Where a name may be of a queue, a reader or a record and of something else, nothing is rewritten."""
    assert rewrite(script(ANOTHER[case])).status == "flagged"
