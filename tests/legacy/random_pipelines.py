"""Pipelines of TensorFlow 1 made at random: producers, readers, and queues between them and batches."""

import re

from random_batches import Batches


class Pipelines(Batches):
    """Writes pipelines.

    Attributes:
        ending: of the files that are read.
    """

    ending = "txt"

    # Producers, and readers -----------------------------------------------------------------------------------------

    def source(self):
        """Add what makes the tensors of one record."""
        if self.chance(0.3):
            self.python()
        epochs = self.draw("num_epochs=1", "num_epochs=1", "num_epochs=2", "num_epochs=NUMBER")
        order = self.draw("shuffle=False", "shuffle=False", "shuffle=False", "shuffle=False", "seed=7", "shuffle=True")
        kind = self.random.randrange(16)
        if kind == 12:
            self.arrays()
        elif kind == 14 and not self.text_taken:
            self.kept_on_self()
        elif kind in (13, 15) and not self.text_taken:
            self.in_step()
        elif kind <= 1:
            self.slices(f"{epochs}, {order}")
        elif kind == 2:
            name = self.new()
            self.add(f"{name} = tf.to_float(tf.train.range_input_producer(7, {epochs}, {order}).dequeue())")
            if self.chance(0.7):
                self.lines.pop()
                self.add(f"{name} = tf.train.range_input_producer(7, {epochs}, {order}).dequeue()")
                self.add(f"{name} = tf.to_float({name})")
            self.kinds[name] = "number"
        elif kind == 3 and not self.text_taken:
            name = self.new()
            self.add(f"{name} = one_of(files)")
            self.kinds[name] = "number"
        else:
            self.files(epochs, order)

    def slices(self, options):
        tensors = "[tf.range(7.0), tf.range(7.0) * 2.0]"
        if self.chance(0.15):
            name, options = self.new(), self.draw(options, options, "num_epochs=2, seed=3, capacity=4")
            self.add("given = [tf.range(5.0), tf.range(5.0) * 2.0, tf.range(5.0) * 3.0]")
            self.add(f"{name}, b, c = tf.train.slice_input_producer({self.draw('given', '[*given]')}, {options})")
            self.add(*self.draw((), (), ("given[1] = tf.zeros([5])",)))
            self.kinds |= {name: "number", "b": "number", "c": "number"}
            return
        if self.chance(0.5):
            name, second = self.new(), self.draw("a", "b")
            self.add(f"{name}, {second} = tf.train.slice_input_producer({tensors}, {options})")
            self.kinds |= {name: "number", second: "number"}
            return
        name = self.new()
        self.add(f"{name} = tf.train.slice_input_producer({tensors}, {options})")
        self.kinds[name] = "list"
        self.add(f"first = {name}[0]")
        self.kinds["first"] = "number"
        if self.chance(0.2):
            self.add(f"{name} = " + self.draw(f"{{'x': {name}[0]}}", f"dict(x=first, y={name}[1])"))
            self.kinds[name] = "dict"

    def arrays(self):
        """Add arrays that a queue is given over and over."""
        name, second = self.new(), self.draw("a", "b")
        self.add("numbers = np.arange(6.0).astype('float32')")
        lines = [
            "rows = tf.FIFOQueue(50, [tf.float32, tf.float32], [[], []])",
            "row = rows.enqueue_many([numbers, numbers * 2.0])",
            "tf.train.add_queue_runner(tf.train.QueueRunner(rows, [row]))",
        ]
        changing = self.draw("", "", "", "numbers[0] = 9.0", "early = numbers[:2]\nearly *= 3.0", "numbers = None")
        if changing:
            lines.insert(self.draw(0, 1, 2, 3), changing)
        self.add(*lines, f"{name}, {second} = rows.dequeue()")
        self.kinds |= {name: "number", second: "number"}

    def kept_on_self(self):
        """Add a record of a queue and a reader that an object keeps, made and read in methods."""
        self.ends("txt")
        name = self.new()
        self.add(f"source = {self.draw('Source(files)', 'Source(files).opened()')}")
        self.add(f"{name} = source.{self.draw('record()', 'record()', 'scaled(3.0)')}")
        self.kinds |= {name: "number", "source": "python"}
        if self.chance(0.2):
            self.add(f"w = {self.draw('source.record()', 'Source(files[::-1]).record()')}")
            self.kinds["w"] = "number"

    def in_step(self):
        """Add records of two queues that are read in step."""
        self.ends("txt")
        # Of endless ones, too many pairs are possible for a shuffled run to meet all.
        first, second, ends = self.new(), self.draw("a", "b"), f"num_epochs={self.draw(1, 1, 2)}, "
        given = self.draw("files[::-1]", "files", "files[1:]", "files[:1]")
        queues = [f"ones = tf.train.string_input_producer(files, {ends}shuffle=False)"]
        queues += [f"twos = tf.train.string_input_producer({given}, {self.draw(ends, ends, '')}shuffle=False)"]
        options = f"{ends}shuffle=False"
        slices = f"{second}, c = tf.train.slice_input_producer([tf.range(7.0), tf.range(7.0) * 2.0], {options})"
        text = f"{second} = tf.string_to_number"
        ways = (
            ([f"{first} = one_of(files)", f"{second} = one_of({given})"],),
            ([*queues, f"{first} = read(ones)", f"{second} = {self.draw('read', 'read_later')}(twos)"],),
            (
                [queues[0].replace("ones", "twos"), slices],
                f"_, one = tf.TextLineReader().read(twos)\n{first} = tf.string_to_number(one)",
            ),
            self.read_twice(queues, first, f"{text}(value)", "value"),
            self.read_twice(queues, first, f"{text}(two)", "two"),
            self.read_twice(queues, first, f"{text}(two)", "two"),
        )
        made, *reads = self.draw(*ways)
        self.kinds |= {"c": "number"} if slices in made else {}
        self.add(*made, *reads[:1])
        if len(reads) > 1:
            self.kinds[first] = "number"
            if self.chance(0.3):
                self.statement()
            self.add(reads[1])
        self.kinds |= {first: "number", second: "number"}
        if self.chance(0.3):
            self.add(self.draw(
                f"{first} = {first} + {second}", f"{first}, {second} = pair({first}, {second})",
                f"{first} = {first} if FLAG else {second}", f"{first}, {second} = {second}, {first}",
                f"{first} = [{first}, {second}][0]", f"{first} = tf.stack([{first}, {second}])[0]",
                f"c, {second} = both({first})\n{first} = c",
            ))  # fmt: skip

    def read_twice(self, queues, first, making, two):
        """Return statements that make two queues, and read each, with one reader at times, or one name."""
        reader = "tf.TextLineReader()"
        if self.chance(0.25):
            made, reader = self.draw("tf.TextLineReader()", "tf.WholeFileReader()"), "reader"
            queues = [*queues, f"reader = {made}"]
            making = making.replace("string_to_number", "to_float")
            making = making.replace(f"({two})", f"(tf.strings.length({two}))")
        one, key = ("value" if two == "value" else "one"), self.draw("_", "_", "key")
        more = " + tf.to_float(tf.strings.length(key))" * (key == "key" and self.chance(0.5))
        read = f"{key}, {one} = {reader}.read(ones)\n{first} = tf.to_float(tf.strings.length({one})){more}"
        return queues, read, f"_, {two} = {reader}.read(twos)\n{making}"

    def files(self, epochs, order):
        queue = self.draw("queue", "names", "x", "files", "q")
        given = self.draw("files", "files", "files", "sorted(files)", "tf.constant(files)", "list(files)", "files[:1]")
        made = f"tf.train.string_input_producer({given}, {epochs}, {order})"
        if self.chance(0.15):
            made = f"make_queue(files, {epochs.partition('=')[2]})"
        reader = None
        if self.chance(0.1):
            reader = "early"
            self.add("early = tf.TextLineReader()")
        if reader is None and self.chance(0.12):
            self.read_inside(made)
            return
        if reader is None and self.chance(0.08):
            self.read_chosen(queue, made)
            return
        if self.chance(0.05):
            self.add("epochs = 2")
            made = re.sub(r"num_epochs=\w+", "num_epochs=epochs", made)
        self.add(f"{queue} = {made}")
        self.kinds.pop(queue, None)
        self.add(
            *self.draw(
                *[()] * 20, ("epochs = 1",), ("if not FLAG:", f"    {queue} = {made.replace('files', 'files[1:]')}")
            )
        )
        if self.chance(0.12):
            self.read_by_flag(queue)
            return
        if self.chance(0.06):
            self.ends("txt")
            lines = ["skipped = 1", "early = tf.TextLineReader(skip_header_lines=skipped)", "skipped = 0"]
            self.add(*lines[: self.draw(2, 3)], f"_, x = early.read({queue})", "x = tf.string_to_number(x)")
            self.kinds |= {"x": "number", "skipped": "python"}
            return
        if self.chance(0.2):
            self.python()
        if reader is not None:
            self.ends("txt")
            self.add(f"_, x = early.read({queue})", "x = tf.string_to_number(x)")
            self.kinds["x"] = "number"
            return
        kinds = (
            "lines",
            "lines",
            "lines",
            "lines",
            "called",
            "given",
            "examples",
            "examples",
            "columns",
            "bytes",
            "whole",
            "several",
        )
        getattr(self, "read_" + self.draw(*kinds))(queue)

    def ends(self, ending):
        """Let the function read files of an ending; those of text where another pipeline has read others."""
        self.ending = ending

    def read_lines(self, queue):
        record = self.draw("record", "value", "x", "line")
        self.ends("txt")
        match self.random.randrange(7):
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
            case 4:
                self.add("reader = tf.TextLineReader(skip_header_lines=1)", f"key, {record} = reader.read({queue})")
            case 5:
                self.add(
                    f"name, {record} = tf.TextLineReader().read({queue})", "n = tf.to_float(tf.strings.length(name))"
                )
                self.kinds["n"] = "number"
            case _:
                self.add(f"_, {record} = tf.TextLineReader().read({queue})")
        if record != "n":
            self.kinds.pop(record, None)
        if self.chance(0.1):
            self.add(*self.queue_between(record))
        name = self.new()
        self.add(f"{name} = {self.draw('tf.string_to_number', 'tf.string_to_number', 'parsed')}({record})")
        self.kinds |= {record: "text", name: "number"}

    def read_inside(self, made):
        """Add a read whose queue is made where it reads, and whose record is used there."""
        name = self.new()
        self.ends("txt")
        record = self.draw("tf.TextLineReader().read({})[1]", "tf.TextLineReader().read({}).value")
        read = self.draw(f"tf.string_to_number({record})", f"scale(tf.string_to_number({record}))", "read({})")
        self.add(f"{name} = {read.format(made)}")
        self.kinds[name] = "number"

    def read_chosen(self, queue, made):
        """Add a read by one of two functions, chosen before the queue is made, or behind it."""
        name = self.new()
        self.ends("txt")
        lines = ["if FLAG:", "    chosen = read_first", "else:", "    chosen = read_later"]
        making = [f"{queue} = {made}"]
        self.add(*self.draw([*lines, *making], [*lines, *making], [*making, *lines]), f"{name} = chosen({queue})")
        self.kinds.pop(queue, None)
        self.kinds[name] = "number"

    def read_by_flag(self, queue):
        """Add a read by one of two readers, made in the arms of a condition, before it or in an expression."""
        name, skipping = self.new(), f"tf.TextLineReader(skip_header_lines={self.draw('1', 'NUMBER')})"
        self.ends("txt")
        self.add(*self.draw(
            ("if FLAG:", "    reader = tf.TextLineReader()", "else:", f"    reader = {skipping}"),
            (f"reader = {skipping}", "if FLAG:", "    reader = tf.TextLineReader()"),
            (f"reader = tf.TextLineReader() if FLAG else {skipping}",),
            ("for reader in [tf.TextLineReader()]:", "    pass"),
            ("reader = reader_of()",),
            (f"reader = reader_of({self.draw('0', '1')})",),
            ("self_ = Kept()", f"self_.reader = {skipping}", "reader = self_.reader"),
        ))  # fmt: skip
        self.add(f"_, record = reader.read({queue})", f"{name} = tf.string_to_number(record)")
        self.kinds |= {"record": "text", name: "number"}

    def read_called(self, queue):
        name = self.new()
        self.ends("txt")
        self.add(f"{name} = read({self.draw('', '', 'names=')}{queue})")
        self.kinds[name] = "number"

    def read_given(self, queue):
        name = self.new()
        self.ends("txt")
        self.add(f"{name} = read_with(tf.TextLineReader(), {queue})")
        self.kinds[name] = "number"

    def read_examples(self, queue):
        record = self.draw("record", "serialized")
        self.ends("tfrecord")
        features = "{'x': tf.FixedLenFeature([], tf.float32), 'n': tf.FixedLenFeature([], tf.int64)}"
        if self.chance(0.5):
            self.add(f"features = {features}")
            features = "features"
        self.add("reader = tf.TFRecordReader()", f"_, {record} = reader.read({queue})")
        if self.chance(0.5):
            self.add(f"parts = tf.parse_single_example({record}, {features})")
        else:
            self.add("parts = tf.parse_single_example(", f"    {record},", f"    features={features})")
        self.kinds[record] = "text"
        name = self.new()
        self.add(f"{name} = parts['x']")
        if name != "parts":
            self.kinds["parts"] = "dict"
        self.kinds[name] = "number"
        if self.chance(0.3):
            self.add("parts['n'] = tf.to_float(parts['n'])")

    def read_columns(self, queue):
        self.ends("csv")
        first, second = self.new(), self.draw("a", "b")
        self.add(f"_, line = tf.TextLineReader().read({queue})")
        self.kinds["line"] = "text"
        if self.chance(0.5):
            self.add(f"{first}, {second} = tf.decode_csv(line, record_defaults=[[0.0], [0.0]])")
            self.kinds |= {first: "number", second: "number"}
        else:
            self.add(f"{first} = tf.decode_csv(line, [[0.0], [0.0]])", f"{second} = {first}[0]")
            self.kinds |= {first: "list", second: "number"}

    def read_bytes(self, queue):
        self.ends("bin")
        name = self.new()
        self.add("reader = tf.FixedLengthRecordReader(record_bytes=4)", f"_, value = reader.read({queue})")
        self.add(f"{name} = tf.reduce_sum(tf.to_float(tf.decode_raw(value, tf.uint8)))")
        self.kinds |= {"value": "text", name: "number"}

    def read_whole(self, queue):
        self.ends("txt")
        name = self.new()
        self.add(
            f"_, content = tf.WholeFileReader().read({queue})", f"{name} = tf.to_float(tf.strings.length(content))"
        )
        self.kinds |= {"content": "text", name: "number"}

    def read_several(self, queue):
        self.ends("txt")
        name = self.new()
        self.add(f"_, lines = tf.TextLineReader().read_up_to({queue}, 2)", f"{name} = tf.string_to_number(lines)")
        self.kinds |= {"lines": "text", name: "number"}
        self.many = True

    def queue_between(self, record):
        kind = self.draw("FIFOQueue(20, [tf.string], [[]])", "RandomShuffleQueue(20, 3, [tf.string], [[]])")
        lines = [
            f"waiting = tf.{kind}",
            f"filling = waiting.enqueue([{record}])",
            "tf.train.add_queue_runner(tf.train.QueueRunner(waiting, [filling]))",
            f"{record} = waiting.dequeue()",
        ]
        if self.chance(0.3):
            made = lines.pop(0)
            place = next(
                i for i in reversed(range(len(self.lines))) if record in self.lines[i] and "read" in self.lines[i]
            )
            self.lines.insert(place, self.indent + made)
        return lines
