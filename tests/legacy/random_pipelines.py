"""Pipelines of TensorFlow 1 made at random: producers, readers, queues and batches."""

import re

from random_statements import Statements


class Pipelines(Statements):
    """Writes pipelines.

    Attributes:
        ending: of the files that are read.
        many: whether what is read are several records.
        start: the line at which the function begins.
        text_taken: whether functions that read text cannot be called.
    """

    ending, many, start, text_taken = "txt", False, 0, False

    # Producers, and readers -----------------------------------------------------------------------------------------

    def source(self):
        """Add what makes the tensors of one record."""
        if self.chance(0.3):
            self.python()
        epochs = self.draw("num_epochs=1", "num_epochs=1", "num_epochs=2", "num_epochs=NUMBER")
        order = self.draw("shuffle=False", "shuffle=False", "shuffle=False", "shuffle=False", "seed=7", "shuffle=True")
        kind = self.random.randrange(14)
        if kind == 12:
            self.arrays()
        elif kind == 13 and not self.text_taken:
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

    def in_step(self):
        """Add records of two queues that are read in step."""
        self.ends("txt")
        first, second, ends = self.new(), self.draw("a", "b"), self.draw("num_epochs=1, ", "", "num_epochs=2, ")
        given = self.draw("files[::-1]", "files", "files[1:]", "files[:1]")
        queues = [f"ones = tf.train.string_input_producer(files, {ends}shuffle=False)"]
        queues += [f"twos = tf.train.string_input_producer({given}, {self.draw(ends, ends, '')}shuffle=False)"]
        reads = ["_, one = tf.TextLineReader().read(ones)", "_, two = tf.TextLineReader().read(twos)"]
        if self.chance(0.3):
            reads = ["reader = tf.TextLineReader()"] + [line.replace("tf.TextLineReader()", "reader") for line in reads]
        else:
            self.random.shuffle(reads)
        self.add(*queues, *reads, f"{first}, {second} = tf.string_to_number(one), tf.string_to_number(two)")
        self.kinds |= {first: "number", second: "number"}

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
        if self.chance(0.08):
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

    # Batches --------------------------------------------------------------------------------------------------------

    def batched(self, batching):
        """Add the batch, and return its variables and their kind."""
        self.have_number()
        size = self.draw("2", "3", "NUMBER")
        more = ("", "", "", ", num_threads=1", ", allow_smaller_final_batch=True", ", capacity=64", ", num_threads=2")
        options = self.draw(*more) + (", enqueue_many=True" if self.many else "")
        if self.many:
            return self.of_one(batching, size, options)
        kinds = [self.of_two, self.of_one, self.of_pair, self.in_branches, self.made_anew, self.by_hand]
        kinds += [self.bucketed] if not self.by_chance() else []
        kinds += [self.unpacked] * 2 + [self.joined] * 2 + [self.of_chance, self.padded, self.elsewhere]
        kinds += [self.inside, self.of_shapes, self.by_hand_many]
        kinds += [self.of_list] * 3 if self.of("list") else []
        kinds += [self.of_dict] * 3 if self.of("dict") else []
        return self.draw(*kinds)(batching, size, options)

    def by_chance(self):
        """Whether the order of files is one of chance, which decides then what buckets are left over."""
        return any("shuffle=True" in line or "RandomShuffle" in line for line in self.lines[self.start :])

    def of_list(self, batching, size, options):
        name = self.new()
        self.add(f"{name} = {batching}({self.of('list')}, {size}{options})")
        return {name: "list"}

    def of_dict(self, batching, size, options):
        name = self.new()
        self.add(f"{name} = {batching}({self.of('dict')}, batch_size={size}{options})")
        return {name: "dict"}

    def of_one(self, batching, size, options):
        name, x = self.new(), self.of("number") if self.many else self.number()
        self.add(f"{name} = {batching}({self.draw(f'[{x}]', x)}, {size}{options})")
        return {name: "number"}

    def of_two(self, batching, size, options):
        name = self.new()
        self.add(f"{name} = {batching}([{self.number()}, {self.number()}], {size}{options})")
        return {name: "list"}

    def of_pair(self, batching, size, options):
        name = self.new()
        self.add(f"{name} = {batching}(({self.number()}, {self.number()}), batch_size={size}{options})")
        return {name: "list"}

    def unpacked(self, batching, size, options):
        a, b = self.of("number"), self.draw("y", "z", "batch", "labels")
        if a == b:
            return self.of_two(batching, size, options)
        self.add(f"{a}, {b} = {batching}([{self.number()}, {self.number()}], {size}{options})")
        return {a: "number", b: "number"}

    def in_branches(self, batching, *_):
        name, x, y = self.new(), self.number(), self.number()
        self.add("if FLAG:", f"    {name} = {batching}([{x}, {y}], 2)")
        self.add("else:", f"    {name} = {self.draw(batching, batching, 'tf.train.batch')}([{x}, {y}], 3)")
        return {name: "list"}

    def joined(self, _, size, __):
        name, x, y = self.new(), self.number(), self.number()
        if self.chance(0.5):
            item = self.draw("_", "n", "i")
            # Examples that differ between threads come by chance, of which runs with one thread know nothing.
            item = "_" if re.search(rf"\b{item}\b", f"{x} {y}") else item
            self.add(f"{name} = tf.train.batch_join([({x}, {y}) for {item} in range(2)], {size})")
        else:
            self.add("parts = []", "for thread in range(2):", f"    parts.append([{x}, {y}])")
            self.add(f"{name} = tf.train.batch_join(parts, {size})")
        return {name: "list"}

    def of_chance(self, _, size, __):
        name, x, y = self.new(), self.number(), self.number()
        if self.chance(0.5):
            more = self.draw("", "", ", seed=5", ", num_threads=2")
            self.add(f"{name} = tf.train.shuffle_batch([{x}, {y}], {size}, capacity=30, min_after_dequeue=4{more})")
        else:
            self.add(f"{name} = tf.train.maybe_batch([{x}, {y}], {self.of('number')} > 2.0, {size})")
        return {name: "list"}

    def padded(self, batching, size, options):
        name, x = self.new(), self.of("number")
        self.add(f"steps = tf.fill([tf.to_int32({x}) % 3 + 1], {x})")
        self.add(f"{name} = {batching}([steps, {x}], {size}, dynamic_pad=True{options})")
        return {name: "list"}

    def elsewhere(self, batching, size, options):
        if self.text_taken:
            return self.of_two(batching, size, options)
        name = self.new()
        self.add(f"{name} = batched({self.of('number')}, {size})")
        return {name: "list"}

    def made_anew(self, batching, size, options):
        name = self.new()
        self.add(f"{name} = {{'x': {self.number()}, 'y': {self.number()}}}")
        self.add(f"{name} = {batching}({name}, {size}{options})")
        return {name: "dict"}

    def by_hand(self, _, size, __):
        name, x = self.new(), self.number()
        kind = self.draw("FIFOQueue(40", "PaddingFIFOQueue(40", "RandomShuffleQueue(40, 3")
        lines = [
            f"filled = tf.{kind}, [tf.float32], [[]])",
            f"tf.train.add_queue_runner(tf.train.QueueRunner(filled, [filled.enqueue([{x}])]))",
        ]
        if self.chance(0.4):
            self.lines.insert(self.start, self.indent + lines.pop(0))
        self.add(*lines, f"{name} = filled.{self.draw('dequeue_many', 'dequeue_many', 'dequeue_up_to')}({size})")
        return {name: "number"}

    def inside(self, batching, size, options):
        name, x = self.new(), self.number()
        self.add(f"{name} = {self.draw('tf.abs', 'scale', '-1.0 * ')}({batching}([{x}], {size}{options}))")
        return {name: "number"}

    def of_shapes(self, batching, size, options):
        name, x = self.new(), self.of("number")
        shapes = self.draw("[[None], []]", "((None,), ())", "[[3], []]")
        self.add(f"steps = tf.fill([{'3' if '3' in shapes else f'tf.to_int32({x}) % 3 + 1'}], {x})")
        options += ", dynamic_pad=True" if "None" in shapes or self.chance(0.5) else ""
        self.add(f"{name} = {batching}([steps, {x}], {size}, shapes={shapes}{options})")
        return {name: "list"}

    def by_hand_many(self, _, size, __):
        name, x = self.new(), self.number()
        self.add("filled = tf.FIFOQueue(40, [tf.float32, tf.float32], [[], []])")
        self.add(f"filling = filled.enqueue_many([tf.stack([{x}, {x} * 2.0]), tf.zeros([2])])")
        self.add("tf.train.add_queue_runner(tf.train.QueueRunner(filled, [filling]))")
        self.add(f"{name} = filled.dequeue_many({size})")
        return {name: "list"}

    def bucketed(self, _, size, __):
        name, x = self.new(), self.of("number")
        called = self.draw("tf.contrib.training", "tf.contrib.training", "tfc.training")
        self.add(f"length = tf.to_int32({x}) % 5")
        self.add(
            f"{name} = {called}.bucket_by_sequence_length(", f"    length, [{x}], {size}, [2, 4], dynamic_pad=True)"
        )
        self.add(f"{name} = {name}[1][0]")
        return {name: "number"}
