"""Batches of TensorFlow 1 made at random, of what a pipeline has read."""

import re

from random_statements import Statements


class Batches(Statements):
    """Writes batches.

    Attributes:
        many: whether what is read are several records.
        start: the line at which the function begins.
        text_taken: whether functions that read text cannot be called.
    """

    many, start, text_taken = False, 0, False

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
        kinds += [self.in_arms, self.perhaps_joined]
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
            x = f"scale({x}, 2.0 + 0 * {item})" if item != "_" and self.chance(0.1) else x
            self.add(f"{name} = tf.train.batch_join([({x}, {y}) for {item} in range(2)], {size})")
        else:
            same = self.draw((), ("each += 2.0",), ("times = 3.0", "each *= times"), ("if FLAG:", "    each += 1.0"))
            work = self.draw(same, same, same, same, ("each += 0.0 * thread",))  # the last tells threads apart
            lines = [f"each = {x}", *work, f"parts.append([each, {y}])"]
            self.add(
                "parts = []", f"for thread in range({self.draw('2', '2', 'NUMBER')}):", *(f"    {s}" for s in lines)
            )
            self.add(f"{name} = tf.train.batch_join(parts, {size})")
        return {name: "list"}

    def perhaps_joined(self, _, size, __):
        """Add a batch of joined examples, of which some are kept."""
        name, x, y = self.new(), self.number(), self.number()
        examples = self.draw(f"[({x}, {y})]", f"[[{x}, {y}] for _ in range(1)]")
        self.add(f"{name} = tf.train.maybe_batch_join({examples}, {self.of('number')} > 2.0, {size})")
        return {name: "list"}

    def in_arms(self, _, size, __):
        """Add a batch of a queue whose kind a condition chooses."""
        name, x = self.new(), self.number()
        kinds = ["tf.FIFOQueue(40, [tf.float32], [[]])", "tf.PaddingFIFOQueue(40, [tf.float32], [[]])"]
        kinds += ["tf.RandomShuffleQueue(40, 3, [tf.float32], [[]])"]
        first, second = self.random.sample(kinds, 2)
        self.add("if FLAG:", f"    filled = {first}", "else:", f"    filled = {second}")
        self.add(f"tf.train.add_queue_runner(tf.train.QueueRunner(filled, [filled.enqueue([{x}])]))")
        self.add(f"{name} = filled.dequeue_many({size})")
        return {name: "number"}

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
