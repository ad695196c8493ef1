"""What stands in for the arguments of functions that nobody calls."""

from seqrecorder.legacy.migrate.verify.parameters import candidates


def test_sizes_may_be_shapes_but_not_those_of_batches():
    """A queue that is asked for a shape of elements ends the process."""
    sizes = candidates(lambda batch_size, image_size: (batch_size, image_size), ["records-0"], {}, {})
    of_batches, of_images = ([value for _, value in each] for each in sizes)
    assert not any(isinstance(value, tuple) for value in of_batches)
    assert (24, 24, 3) in of_images
