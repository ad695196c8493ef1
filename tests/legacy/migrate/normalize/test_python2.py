"""Scripts that only Python 2 reads, made Python 3."""

from seqrecorder.legacy.migrate.normalize.python2 import as_python3


def test_tabs_that_python_2_took_for_spaces_become_them():
    """Up to the next eighth column, but not in strings, whose white space is theirs."""
    old = """def f():\n\tprint 'a'\n        x = '''b\n\tc'''\n\tif x:\n\t    print x\n"""
    new = """def f():\n        print('a')\n        x = '''b\n\tc'''\n        if x:\n            print(x)\n"""
    assert as_python3(old) == new
