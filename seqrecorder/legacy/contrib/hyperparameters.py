"""`tf.contrib.training.HParams`: the sizes of batches and models that scripts kept together."""

from __future__ import annotations

from typing import Any


class HParams:
    """`tf.contrib.training.HParams`: values by names, which may be changed by a text such as `batch_size=4`.

    >>> sizes = HParams(batch_size=32, rate=0.1, layers=[64])
    >>> sizes.parse("batch_size=4,layers=[8,8]").values()
    {'batch_size': 4, 'rate': 0.1, 'layers': [8, 8]}

    Args:
        **values: by their names.
    """

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add a value under a new name.

        Raises:
            ValueError: the name is taken.
        """
        if hasattr(self, name):
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Replace a value, by one that becomes of its type.

        Raises:
            KeyError: there is no such name.
        """
        setattr(self, name, _like(self.__dict__[name], value))

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or a default where there is none."""
        return self.__dict__.get(key, default)

    def values(self) -> dict[str, Any]:
        """Return the values by their names."""
        return dict(self.__dict__)

    def override_from_dict(self, values_dict: dict[str, Any]) -> HParams:
        """Replace values, and return this."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse(self, values: str) -> HParams:
        """Replace values by a text, `name=value,name=[value,value]`, and return this.

        Raises:
            KeyError: there is no such name.
            ValueError: a text does not become a value of the old one's type, or is none of such.
        """
        rest = values.strip()
        while rest:
            name, equals, rest = rest.partition("=")
            if not equals:
                raise ValueError(f"expected name=value, got {name!r} in {values!r}")
            if rest.startswith("["):
                value, closed, rest = rest[1:].partition("]")
                if not closed:
                    raise ValueError(f"a list has no end in {values!r}")
                self.set_hparam(name.strip(), [part.strip() for part in value.split(",") if part.strip()])
                rest = rest.lstrip(" ,")
            else:
                value, _, rest = rest.partition(",")
                self.set_hparam(name.strip(), value.strip())
        return self

    def __contains__(self, key: str) -> bool:
        return key in self.__dict__

    def __repr__(self) -> str:
        return f"HParams({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


def _like(old: Any, value: Any) -> Any:
    """Return a value as one of the type of another."""
    if isinstance(old, (list, tuple)):
        kind = old[0] if old else ""
        return [_like(kind, part) for part in (value if isinstance(value, (list, tuple)) else [value])]
    if isinstance(old, bool) and isinstance(value, str):
        known = {"true": True, "1": True, "false": False, "0": False}
        if value.lower() not in known:
            raise ValueError(f"expected true or false, got {value!r}")
        return known[value.lower()]
    return value if old is None else type(old)(value)
