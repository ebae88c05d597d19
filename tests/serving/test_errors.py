import pickle

import pytest

from serving import errors
from serving.errors import FinalServingError, RetryableServingError, ServingError


def error_classes() -> list[type[ServingError]]:
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    return [error for error in found if issubclass(error, ServingError)]


@pytest.mark.parametrize("error_class", error_classes(), ids=lambda error_class: error_class.__name__)
def test_every_error_survives_pickling(error_class: type[ServingError]) -> None:
    error = error_class("model m: try n")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is error_class
    assert str(copy) == "model m: try n"


def test_the_waiting_time_survives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(RetryableServingError("busy", 2.5)))
    assert copy.after_s == 2.5


def test_the_class_says_whether_another_try_is_worth_it() -> None:
    for error_class in error_classes():
        assert not (
            issubclass(error_class, RetryableServingError) and issubclass(error_class, FinalServingError)
        )
