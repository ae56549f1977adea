import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest

import sessionsched
from sessionsched import errors, model


def public_modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(sessionsched.__path__, "sessionsched."):
        if not any(part.startswith("_") for part in found.name.split(".")):
            yield importlib.import_module(found.name)


def classes_of(module: ModuleType) -> dict[str, type]:
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }


def test_the_package_says_what_it_is() -> None:
    assert str(sessionsched.__doc__).startswith("sessionsched: ")


def test_the_public_names_are_sorted_and_each_is_there_once() -> None:
    assert sessionsched.__all__ == sorted(set(sessionsched.__all__))


def test_the_public_names_are_exactly_what_the_package_takes_from_its_modules() -> None:
    taken = {
        name
        for name, value in vars(sessionsched).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("sessionsched.")
    }
    assert taken == set(sessionsched.__all__)


def test_every_name_that_a_module_offers_is_there() -> None:
    missing = [
        f"{module.__name__}.{name}"
        for module in [sessionsched, *public_modules()]
        for name in getattr(module, "__all__", ())
        if not hasattr(module, name)
    ]
    assert missing == []


def test_no_module_offers_a_name_twice() -> None:
    twice = [
        module.__name__
        for module in [sessionsched, *public_modules()]
        if len(set(offered := getattr(module, "__all__", ()))) != len(offered)
    ]
    assert twice == []


def test_the_small_modules_are_among_those_that_were_looked_at() -> None:
    looked_at = {module.__name__.removeprefix("sessionsched.") for module in public_modules()}
    assert looked_at >= {"checks", "errors", "line", "model", "outbox", "slots", "verdict"}


@pytest.mark.parametrize("module", [errors, model])
def test_every_error_and_every_class_of_the_model_can_be_had_from_the_package(
    module: ModuleType,
) -> None:
    offered = {name: getattr(sessionsched, name, None) for name in classes_of(module)}
    assert offered == classes_of(module)
    assert set(module.__all__) == set(offered) <= set(sessionsched.__all__)
