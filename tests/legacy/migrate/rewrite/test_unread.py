"""What only queues took goes with them; every other line stays."""

import pytest
from old_scripts import READ, script

from seqrecorder.legacy.migrate.rewrite.script import rewrite

BATCH = "    return tf.train.shuffle_batch([record], 3, capacity, least, num_threads=threads)\n"
SIZES = "    least = 5\n    capacity = 2 * least + int(0.5 * size)\n    # How many fill it.\n    threads = 4\n"


def test_numbers_that_only_queues_took_go():
    """So do the comments above them, and numbers that only those are made of; what the buffer takes stays."""
    new = rewrite(script(SIZES + READ + BATCH, parameters="files, size")).text
    assert "threads" not in new
    assert "How many" not in new
    assert "    least = 5\n    capacity = 2 * least + int(0.5 * size)\n" in new
    assert (
        "least"
        not in rewrite(script(SIZES + READ + "    return tf.train.batch([record], 3, threads, capacity)\n")).text
    )


@pytest.mark.parametrize(
    "setting",
    [
        "    threads = count(files)\n",
        "    threads = files.pop()\n",
        "    threads = 4\n    print(threads)\n",
        "    threads = 4\n    print(locals())\n",
        "    global threads\n    threads = 4\n",
        "    threads = other = 4\n",
        "    threads = 4\n    def told():\n        return threads\n    print(told())\n",
        "    threads = 4\n    if files:\n        threads = 8\n",
        "    threads = 4; print(files)\n",
    ],
)
def test_what_else_takes_or_does_stays(setting):
    """A line goes only where nothing can tell that it has gone, and no block is left without one."""
    old = script("    least, capacity = 5, 9\n" + setting + READ + BATCH, "threads = 0\n")
    assert all(line in rewrite(old).text for line in setting.splitlines())


def test_what_was_not_read_before_is_left_to_its_author():
    """Only what the rewriting has made superfluous goes."""
    assert "    spare = 3\n" in rewrite(script(SIZES + "    spare = 3\n" + READ + BATCH, parameters="files, size")).text
