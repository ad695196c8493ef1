"""Input functions of TensorFlow 1 made at random: a pipeline, and around it what scripts do to their variables."""

import random

HEAD = """{importing}
FLAG = {flag}
NUMBER = 3
{alias}

def scale(x, n=2.0):
    record = x * n
    return record


def both(x):
    y = [x, x + 1.0]
    return y


def named(x):
    return {{"x": x, "y": x * 2.0}}


def fill(columns, x):
    columns.append(x)


def other(queue, files=()):
    reader, record, x, y, batch = 1, 2, 3, 4, 5
    record += x
    return record + reader + y + batch


def parsed(record):
    y = tf.string_to_number(record)
    return y

"""
IMPORTS = ("import tensorflow as tf", "import tensorflow.compat.v1 as tf", "import tensorflow as tf\nimport os, sys")
ALIASES = (
    ("", "tf.train.batch"),
    ("", "tf.train.batch"),
    ("", "tf.train.batch"),
    ("batching = tf.train.batch\n", "batching"),
    ("train = tf.train\n", "train.batch"),
    ("from tensorflow import train as training\n", "training.batch"),
)
READ = """
def read(names):
    reader = tf.TextLineReader()
    _, record = reader.read(names)
    x = tf.string_to_number(record)
    return x

"""
NAMES = ("x", "y", "z", "w", "total", "n")
TAKEN = ("record", "value", "queue", "files", "reader", "batch", "scale", "key")


class Writer:
    """Writes one script.

    Args:
        seed: of what is drawn.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.kinds = {}  # of variables: number, text, list, dict, python
        self.indent = "    "

    def draw(self, *options):
        return self.random.choice(options)

    def chance(self, share):
        return self.random.random() < share

    def add(self, *lines):
        self.lines += [self.indent + line for line in lines]

    def of(self, *kinds):
        """Return a variable of some kind, None where there is none."""
        found = sorted(name for name, kind in self.kinds.items() if kind in kinds)
        return self.random.choice(found) if found else None

    def number(self):
        x = self.of("number")
        return self.draw(x, f"{x} + 1.0", f"{x} * 2.0", f"tf.abs({x})") if self.chance(0.3) else x

    def new(self):
        return self.draw(*(TAKEN if self.chance(0.1) else NAMES))

    def have_number(self):
        """Add a tensor that is of no record, where all others are gone."""
        if self.of("number") is None:
            self.add("extra = tf.zeros([])")
            self.kinds["extra"] = "number"

    # What is done to variables --------------------------------------------------------------------------------------

    def statement(self):
        """Add one or a few statements."""
        self.have_number()
        steps = [
            *(self.rebound, self.augmented, self.branched, self.listed, self.kept, self.looped, self.called),
            *(self.swapped, self.python, self.nested, self.scoped, self.aliased, self.walrus, self.drawn_together),
            *(self.rebound, self.augmented, self.branched),
        ]
        self.draw(*steps)()

    def rebound(self):
        name, x = self.new(), self.number()
        y = self.of("number")
        self.add(
            f"{name} = {self.draw(x, f'{x} + {y}', f'{x} - 1.0', f'tf.maximum({x}, {y})', f'{x} if FLAG else {y}')}"
        )
        self.kinds[name] = "number"

    def fixed(self):
        name = self.new()
        self.add(f"{name} = {self.draw('tf.constant(2.0)', 'tf.zeros([])', 'tf.to_float(NUMBER)')}")
        self.kinds[name] = "number"

    def augmented(self):
        x, y = self.of("number"), self.of("number", "python")
        change = self.draw("+= 1.0", "*= 2.0", "/= 4.0", "-= 3.0", f"+= {y}", "/= 2.0")
        self.add(f"{x} {change}")

    def branched(self):
        x, y = self.of("number"), self.of("number")
        condition = self.draw("FLAG", "not FLAG", "NUMBER > 2", f"len('{x}') > 1")
        match self.random.randrange(4):
            case 0:
                self.add(f"if {condition}:", f"    {x} = {x} + 1.0")
            case 1:
                self.add(f"if {condition}:", f"    {x} = {y} * 2.0", "else:", f"    {x} -= 1.0")
            case 2:
                name = self.new()
                self.add(f"if {condition}:", f"    {name} = {x}", "else:", f"    {name} = {y} * 3.0")
                self.kinds[name] = "number"
            case _:
                name = self.new()
                self.add(f"{name} = [{x}]", f"if {condition}:", f"    {name} = {name} + [{y}]")
                self.kinds[name] = "list"

    def listed(self):
        x, found = self.number(), self.of("list")
        if found is None or self.chance(0.4):
            name = self.new()
            self.add(f"{name} = {self.draw(f'[{x}, {self.number()}]', f'both({x})', f'[{x}] * 2')}")
            self.kinds[name] = "list"
            return
        action = self.draw("append", "plus", "item", "fill", "augmented", "comprehension", "taken", "insert")
        lines = {
            "append": f"{found}.append({x})",
            "plus": f"{found} = {found} + [{x}]",
            "item": f"{found}[0] = {x}",
            "fill": f"fill({found}, {x})",
            "augmented": f"{found} += [{x}]",
            "comprehension": f"{found} = [{self.draw('x', 'item')} * 2.0 for {self.draw('x', 'item')} in {found}]",
            "taken": f"{found} = {found}[0]",
            "insert": f"{found}.insert(0, {x})",
        }
        if action == "comprehension":
            item = self.draw("x", "item")
            lines[action] = f"{found} = [{item} * 2.0 for {item} in {found}]"
        self.add(lines[action])
        if action == "taken":
            self.kinds[found] = "number"

    def kept(self):
        x, found = self.number(), self.of("dict")
        if found is None or self.chance(0.4):
            name = self.new()
            self.add(f"{name} = {self.draw(f'dict(a={x})', f'named({x})', '{' + f'{chr(34)}a{chr(34)}: {x}' + '}')}")
            self.kinds[name] = "dict"
            return
        self.add(self.draw(f'{found}["b"] = {x}', f"{found}.update(c={x})", f"{found} = dict({found}, d={x})"))

    def looped(self):
        x, item = self.of("number"), self.draw("i", "n", "y")
        self.add(f"for {item} in range(2):", f"    {x} = {x} + {item} * 1.0")
        self.kinds[item] = "python"

    def called(self):
        name, x = self.new(), self.number()
        n = self.of("python")
        self.add(
            f"{name} = {self.draw(f'scale({x})', f'scale({x}, n=3.0)', f'scale({x}, {n})' if n else f'scale({x})')}"
        )
        self.kinds[name] = "number"

    def swapped(self):
        x, y = self.of("number"), self.of("number")
        if x != y:
            self.add(f"{x}, {y} = {y}, {x} + 1.0")

    def python(self):
        name, found = self.new(), self.of("python")
        if found is None or self.chance(0.5):
            self.add(f"{name} = {self.draw('2.0', 'NUMBER * 1.0', 'float(len(str(FLAG)))')}")
            self.kinds[name] = "python"
        else:
            self.add(self.draw(f"{found} += 1.0", f"{found} = {found} * 2.0", f"if FLAG: {found} = 7.0"))

    def nested(self):
        x, n, name = self.of("number"), self.of("python", "number"), self.draw("inner", "add")
        if n is None or n == x:
            return
        if self.chance(0.5):
            self.add(f"{name} = lambda {x}: {x} + {n}")
        else:
            self.add(f"def {name}({x}):", f"    {self.draw('y', 'z', 'record')} = 1.0", f"    return {x} * {n}")
        if self.chance(0.4) and self.kinds[n] == "python":
            self.add(f"{n} = 5.0")
        self.add(f"{x} = {name}({x})")

    def scoped(self):
        x = self.of("number")
        self.add(self.draw('with tf.name_scope("scope"):', 'with tf.device("/cpu:0"):'), f"    {x} = {x} + 1.0")

    def aliased(self):
        found = self.of("list", "dict")
        name = self.new()
        if found is None or name == found:
            return
        self.add(f"{name} = {found}")
        self.kinds[name] = self.kinds[found]

    def walrus(self):
        x, name, inner = self.of("number"), self.new(), self.new()
        if name != inner:
            self.add(f"{name} = ({inner} := {x} + 1.0) * 2.0")
            self.kinds |= {name: "number", inner: "number"}

    def drawn_together(self):
        x, name, second = self.of("number"), self.new(), self.new()
        self.add(f"{name} = {second} = {x} + 1.0")
        self.kinds |= {name: "number", second: "number"}

    # The pipeline ---------------------------------------------------------------------------------------------------

    def source(self):
        """Add what makes the tensors of one record."""
        epochs = self.draw(1, 1, 2)
        kind = self.random.randrange(10)
        if self.chance(0.4):
            self.python()
        if kind == 0:
            name, other = self.new(), self.draw("a", "b")
            self.add(
                f"{name}, {other} = tf.train.slice_input_producer("
                f"[tf.range(7.0), tf.range(7.0) * 2.0], shuffle=False, num_epochs={epochs})"
            )
            self.kinds |= {name: "number", other: "number"}
            return
        if kind == 1:
            name = self.new()
            self.add(
                f"{name} = tf.train.slice_input_producer("
                f"[tf.range(7.0), tf.range(7.0) * 2.0], shuffle=False, num_epochs={epochs})"
            )
            self.kinds[name] = "list"
            self.add(f"first = {name}[0]")
            self.kinds["first"] = "number"
            return
        queue = self.draw("queue", "names", "x", "files")
        self.add(f"{queue} = tf.train.string_input_producer(files, num_epochs={epochs}, shuffle=False)")
        if self.chance(0.2):
            self.python()
        self.kinds.pop(queue, None)
        if kind == 2:
            name = self.new()
            self.add(f"{name} = read({queue})")
            self.kinds[name] = "number"
            return
        self.read(queue)

    def read(self, queue):
        """Add what reads from a queue."""
        record = self.draw("record", "value", "x", "line")
        match self.random.randrange(5):
            case 0:
                self.add("reader = tf.TextLineReader()", f"_, {record} = reader.read({queue})")
            case 1:
                self.add(f"{record} = tf.TextLineReader().read({queue})[1]")
            case 2:
                self.add("reader = tf.TextLineReader()", f"{record} = reader.read({queue}).value")
            case 3:
                self.add("reader = tf.TextLineReader()")
                self.python() if self.chance(0.5) and not self.kinds.pop("reader", None) else None
                self.add(f"key, {record} = reader.read({queue})")
            case _:
                self.add(f"_, {record} = tf.TextLineReader().read({queue})")
        self.kinds.pop(record, None)
        if self.chance(0.1):
            self.add(*self.queue_between(record))
        name = self.new()
        self.add(f"{name} = {self.draw('tf.string_to_number', 'tf.string_to_number', 'parsed')}({record})")
        self.kinds |= {record: "text", name: "number"}

    def queue_between(self, record):
        return (
            "waiting = tf.FIFOQueue(20, [tf.string], [[]])",
            f"filling = waiting.enqueue([{record}])",
            "tf.train.add_queue_runner(tf.train.QueueRunner(waiting, [filling]))",
            f"{record} = waiting.dequeue()",
        )

    def batched(self, batching):
        """Add the batch, and return its variables and their kind."""
        self.have_number()
        x, y = self.number(), self.number()
        size = self.draw("2", "3", "NUMBER")
        options = self.draw(
            "", "", "", ", num_threads=1", ", allow_smaller_final_batch=True", ", capacity=64", ", num_threads=2"
        )
        kind = self.random.randrange(9)
        columns, features = self.of("list"), self.of("dict")
        a, b = self.of("number"), self.draw("y", "z", "batch", "labels")
        name = self.new()
        if kind <= 1 and a != b:
            self.add(f"{a}, {b} = {batching}([{x}, {y}], {size}{options})")
            return {a: "number", b: "number"}
        if kind == 2:
            self.add(f"{name} = {batching}([{x}], {size}{options})")
            return {name: "number"}
        if kind == 3:
            self.add(f"{name} = {batching}({a}, {size}{options})")
            return {name: "number"}
        if kind <= 5 and columns:
            self.add(f"{name} = {batching}({columns}, {size}{options})")
            return {name: "list"}
        if kind <= 6 and features:
            self.add(f"{name} = {batching}({features}, batch_size={size}{options})")
            return {name: "dict"}
        if kind == 7:
            self.add(
                "if FLAG:",
                f"    {name} = {batching}([{x}, {y}], 2)",
                "else:",
                f"    {name} = {batching}([{x}, {y}], 3)",
            )
            return {name: "list"}
        if kind == 8 and self.chance(0.5):
            self.add(f"{name} = tf.train.batch_join([({x}, {y}) for {self.draw('_', 'n', 'i')} in range(2)], {size})")
            return {name: "list"}
        self.add(f"{name} = {batching}(({x}, {y}), batch_size={size}{options})")
        return {name: "list"}

    def pipeline(self, batching, before, after):
        """Add one pipeline, with so many statements between it and its batch, and behind that."""
        self.source()
        for _ in range(before):
            self.statement()
        self.after(self.batched(batching), after)

    def after(self, out, number):
        """Add what is done to a batch, and the return."""
        python = {name: kind for name, kind in self.kinds.items() if kind == "python" and name not in out}
        self.kinds = {**python, **out}
        for _ in range(number):
            if self.of("number"):
                self.statement()
            elif (found := self.of("list")) is not None and self.chance(0.5):
                self.add(f"{found} = {found}[0]")
                self.kinds[found] = "number"
            elif found is not None:
                name = self.new()
                self.add(f"{name} = {found}[0] * 2.0")
                self.kinds[name] = "number"
            elif (found := self.of("dict")) is not None:
                name = self.new()
                self.add(f"{name} = sorted({found}.items())[0][1]")
                self.kinds[name] = "number"
        if not set(self.kinds.values()) - {"python"}:
            self.have_number()
        names = sorted(name for name, kind in self.kinds.items() if kind != "python")
        first = self.random.choice([name for name in out if name in names] or names)
        second = self.random.choice(names)
        returned = self.draw(first, first, f"{first}, {second}", f"[{first}, {second}]", "{" + f'"out": {first}' + "}")
        self.add(f"return {returned}")

    def script(self):
        """Return the text of a script, and the names of its functions."""
        alias, batching = self.draw(*ALIASES)
        head = HEAD.format(importing=self.draw(*IMPORTS), flag=self.draw("True", "False"), alias=alias)
        functions = []
        for name in ("first", "second")[: self.draw(1, 1, 1, 2)]:
            self.kinds = {}
            self.lines.append(f"def {name}(files):")
            self.pipeline(batching, self.draw(0, 1, 2, 3, 4, 6), self.draw(0, 0, 1, 2, 3))
            self.lines += ["", ""]
            functions.append(name)
        text = "\n".join(self.lines).rstrip() + "\n"
        return head + READ * ("= read(" in text) + "\n" + text, functions
