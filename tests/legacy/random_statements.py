"""Statements of TensorFlow 1 made at random: what scripts do to their variables."""

import random

NAMES = ("x", "y", "z", "w", "total", "n")
TAKEN = ("record", "value", "queue", "files", "reader", "batch", "scale", "key")


class Statements:
    """Writes statements around variables of which it knows the kinds.

    Args:
        seed: of what is drawn.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.kinds = {}  # of variables: number, text, list, dict, python
        self.indent = "    "
        self.nests = False
        self.parameters = ("files",)

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
            *(
                self.rebound,
                self.augmented,
                self.branched,
                self.commented,
                self.written_wide,
                self.tried,
                self.repeated,
            ),
            *(self.shaped, self.conditional, self.taken_apart, self.annotated, self.forgotten, self.flagged),
            *(self.changed_elsewhere, self.held_twice, self.taken_later, self.bound_otherwise, self.of_object),
            *(self.by_another_name, self.by_another_name),
        ]
        self.draw(*steps)()

    def rebound(self):
        name, x = self.new(), self.number()
        y = self.of("number")
        self.add(
            f"{name} = {self.draw(x, f'{x} + {y}', f'{x} - 1.0', f'tf.subtract({x}, {y})', f'{x} if FLAG else {y}')}"
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
        self.nests = True  # what they read has to stay
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

    def commented(self):
        x = self.of("number")
        self.add(*self.draw((f"# {x}: a queue", f"{x} = {x} + 1.0  # of files"), ("", f"{x} *= 2.0"), ("# why",)))

    def written_wide(self):
        x, y, name = self.of("number"), self.of("number"), self.new()
        self.add(f"{name} = tf.subtract(", f"    {x},  # this", f"    {y} + 1.0,", ")")
        self.kinds[name] = "number"

    def tried(self):
        x = self.of("number")
        match self.random.randrange(3):
            case 0:
                self.add("try:", f"    {x} = {x} + 1.0", "finally:", "    pass")
            case 1:
                self.add("try:", f"    {x} = {x} + len(None)", "except TypeError:", f"    {x} = {x} - 1.0")
            case _:
                self.add(f"assert {x} is not None")

    def repeated(self):
        x = self.of("number")
        self.add("rounds = 0", "while rounds < 2:", f"    {x} = {x} * 2.0", "    rounds += 1")
        self.kinds["rounds"] = "python"

    def shaped(self):
        x = self.of("number")
        self.add(self.draw(f"{x} = tf.identity({x})", f"{x} = tf.reshape({x}, [])", f"{x} = tf.Print({x}, [])"))

    def conditional(self):
        x, name = self.of("number"), self.new()
        self.add(f"{name} = tf.cond({x} > 3.0, lambda: {x} * 2.0, lambda: {x})")
        self.kinds[name] = "number"

    def taken_apart(self):
        x, name, second = self.of("number"), self.new(), self.new()
        if name != second:
            self.add(f"{name}, {second} = {self.draw(f'both({x})', f'[{x}, {x} + 2.0]', f'pair({x}, {x})')}")
            self.kinds |= {name: "number", second: "number"}

    def annotated(self):
        x = self.of("number")
        if x not in self.parameters:
            self.add(f"{x}: float = {x} + 1.0")

    def forgotten(self):
        name = self.of("python")
        if name is not None and name not in self.parameters and not self.nests:
            self.add(f"del {name}")
            del self.kinds[name]

    def flagged(self):
        x = self.of("number")
        self.add(self.draw(f"{x} = {x} * FACTOR", f"if FACTOR > 2.0: {x} = {x} + FACTOR", f"{x} += FACTOR"))

    # What changes where it is not seen ------------------------------------------------------------------------------

    def changed_elsewhere(self):
        """Take what functions change: a global, an item, an argument."""
        x = self.of("number")
        take = self.draw("KEPT['k']", "times(2.0)", "counted()", "KEPT['k']")
        lines = (f"{x} = {x} * {take}", self.draw("bump()", "doubled(KEPT)", "counted()"), f"{x} = {x} + {take}")
        self.add(*lines[self.draw(0, 0, 1) : self.draw(2, 2, 3)])

    def held_twice(self):
        """Change an object that has two names, or that another one holds."""
        x = self.of("number")
        made, other = self.draw(("[2.0, 3.0]", "{}[0]"), ("dict(k=2.0)", "{}['k']"))
        same = self.draw("held", "[held][0]", "dict(a=held)['a']")
        lines = [f"{x} = {x} * {other.format('held')}", f"{other.format('same')} = 5.0"]
        self.random.shuffle(lines)
        self.add(f"held = {made}", f"same = {same}", *lines)

    def taken_later(self):
        """Take what an iterator, a closure or a default gives by the time."""
        x, k = self.of("number"), self.draw("steps", "by")
        if self.chance(0.5):
            self.add(f"{k} = iter([2.0, 3.0, 4.0])", f"{x} = {x} * next({k})")
            self.add(*self.draw((f"ahead = next({k})",), (), ()))
            return
        self.nests = True
        default = self.draw("", ", r=rate")
        self.add("rate = 2.0", f"def rated(t{default}):", f"    return t * {'r' if default else 'rate'}")
        lines = [f"{x} = rated({x})", "rate = 4.0"]
        self.add(*self.draw(lines, lines[::-1], lines[:1]))

    def bound_otherwise(self):
        """Bind a name, which may be one of a record, by a statement that is no assignment of its own."""
        name, x = self.of("number"), self.of("number")
        if name in self.parameters:
            return
        self.add(*self.draw(
            ("if FLAG:", f"    {name} = tf.constant(3.0)"),
            ("try:", f"    {name} = 2.0 * tf.ones([])", "except ValueError:", "    pass"),
            ("while True:", f"    {name} = tf.constant(5.0)", "    break"),
            (f"for {name} in [tf.zeros([]), tf.ones([])]:", "    pass"),
            ('with tf.name_scope("scope") as scope:', f"    {name} = {x} + float(len(scope) > 0)"),
            (f"{name} = tf.constant(3.0)",),
        ))  # fmt: skip
        if self.chance(0.7):
            self.add(f"{x} = {x} + {name}")

    def of_object(self):
        """Take from an object of the script, whose methods and properties may change it."""
        x = self.of("number")
        lines = [f"{x} = {x} * kept.k", self.draw("kept.double()", "kept.k = 3.0", "kept(1.0)", "ahead = kept.counted")]
        lines += [self.draw(f"{x} = kept({x})", f"{x} = {x} + kept.counted", f"{x} = {x} - kept.k")]
        self.add("kept = Kept()", *lines[: self.draw(1, 2, 3)])

    def by_another_name(self):
        """Change what a record takes by a name that is not its own: what functions return, operators, objects."""
        x = self.of("number")
        made, change = self.draw(
            ("other = same(held)", "other[0] = 5.0"),
            ("other = same(same((held, 1)))", "other[0][0] = 5.0"),
            ("other = held.append", "other(5.0)"),
            ("other = lambda: held.append(6.0)", "other()"),
            ("other = Holder(held)", "other.change()"),
            ("other = Holder(held)", "other + 1.0"),
            ("other = Holder(held)", "with other:\n    pass"),
            ("other = functools.partial(fill, held)", "other(7.0)"),
            ("other = (lambda o: o)(held)", "other *= 2"),
            ("other = max(held, [1.0])", "other.insert(0, 4.0)"),
            (
                "other = []",
                "other.append(held)",
            ),
            ("held = np.ones(2, 'float32')", "same(held).fill(3.0)"),
            ("held = np.ones(2, 'float32')\nother = held[:1]", "other += 3.0"),
            ("for other in (held,):\n    pass", "del other[0]"),
            ("other = {'k': held}", "other['k'].__setitem__(0, 8.0)"),
        )
        lines = [f"{x} = {x} * held[-1]", change]
        self.random.shuffle(lines)
        self.add("held = [2.0, 3.0]", made, *lines, *self.draw((), (f"{x} = {x} + float(len(held))",)))
