"""Options of the loops: small objects, and the same fields as flat keywords."""

import pytest

from fwonline import sets
from fwonline.linear_model import FWRegressor
from fwonline.loop import BadSamples, EventLoop, Questions, Timing


def loop(**options):
    return EventLoop([({"a": 1.0}, 1.0)], FWRegressor(sets.L1Ball(1.0), intercept=False), **options)


def test_a_flat_keyword_takes_the_place_of_a_field():
    questions = Questions(max_pending=7, expire_items=3)
    options = loop(questions=questions, max_early=2, on_error="skip", report_samples=5).options
    assert options.questions == Questions(max_pending=7, expire_items=3, max_early=2)
    assert options.bad_samples == BadSamples(on_error="skip")
    assert options.timing == Timing(report_samples=5)


def test_an_unknown_keyword_is_refused_by_name():
    with pytest.raises(TypeError, match="unknown keyword 'on_eror'; expected one of: on_error, dead_letter"):
        loop(on_eror="skip")


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_pending", 0), ("expire_items", 0), ("expire_seconds", -1.0), ("max_early", -1), ("report_every", 0.0)],
)
def test_a_value_that_cannot_be_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=name):
        loop(**{name: value})
