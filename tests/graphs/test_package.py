"""The package's names are imported at their first use, and all of them exist."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import graphs


@pytest.mark.parametrize("name", graphs.__all__)
def test_a_name_is_what_its_module_has(name: str) -> None:
    value = getattr(graphs, name)
    assert value is getattr(importlib.import_module(value.__module__), name)


def test_no_name_is_a_module_as_well() -> None:
    # Importing the module would put it in the place of the name.
    assert not set(graphs.__all__) & {
        module.name for module in pkgutil.iter_modules(graphs.__path__)
    }
    assert set(graphs.__all__) <= set(dir(graphs))


def test_a_name_that_is_none() -> None:
    with pytest.raises(AttributeError, match="no attribute 'GraphRunner'"):
        graphs.GraphRunner  # type: ignore[attr-defined]
