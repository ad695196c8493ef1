"""What tests of files share: failures at fault points, and what a directory holds."""

from seqrecorder.files import on_fault_point


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def record_calls(action):
    calls = []
    with on_fault_point(lambda name, path: calls.append((name, path))):
        action()
    return calls


class FailAt:
    def __init__(self, number, failure):
        self.number, self.failure, self.seen = number, failure, 0

    def __call__(self, _name, _path):
        self.seen += 1
        if self.seen == self.number:
            raise self.failure
