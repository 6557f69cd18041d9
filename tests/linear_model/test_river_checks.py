"""river's own suite for estimators, on every optimizer and set."""

import pytest
from river import checks, preprocessing
from support.catalogue import OPTIMIZERS, PAIRS, SETS

from fwonline import sets
from fwonline.linear_model import FWClassifier, FWRegressor

# Every pair is tried; those that say little beyond the others only by CI.
CHECKED = [pytest.param(o, s, marks=() if s in ("l1", "l2") else pytest.mark.slow) for o, s in PAIRS]
KINDS = pytest.mark.parametrize("kind", [FWRegressor, FWClassifier])


def run_checks(model, without=()):
    """All of river's checks of a model, by name."""
    done = []
    for check in checks.yield_checks(model):
        if check.__name__ not in without:
            try:
                check(model.clone())
            except Exception as error:
                error.add_note(f"in river's {check.__name__}")
                raise
            done.append(check.__name__)
    return done


@KINDS
@pytest.mark.parametrize(("optimizer", "where"), CHECKED)
def test_estimator(optimizer, where, kind):
    model = kind(SETS[where](), OPTIMIZERS[optimizer](), intercept=where in ("l1", "box"), seed=1)
    # river lets memory grow for some seconds; how memory is held hangs on the optimizer alone.
    once = where == "l1" and kind is FWRegressor
    done = run_checks(model, without=() if once else ("check_bounded_memory_growth",))
    assert {"check_learn_one", "check_shuffle_features_no_impact", "check_learn_many_matches_learn_one"} <= set(done)


@KINDS
def test_the_default(kind):
    assert "check_learn_one" in run_checks(kind(), without=("check_bounded_memory_growth",))


@KINDS
def test_in_a_pipeline(kind):
    model = preprocessing.StandardScaler() | kind(sets.L1Ball(5.0))
    # A StandardScaler learns a whole mini-batch before it transforms it, whatever model follows.
    done = run_checks(model, without=("check_learn_many_matches_learn_one", "check_bounded_memory_growth"))
    assert "check_learn_one" in done
