"""river's own suite for estimators, on every optimizer and set."""

import pytest
from catalogue import OPTIMIZERS, PAIRS, SETS
from river import checks, preprocessing

from fwonline import sets
from fwonline.linear_model import FWClassifier, FWRegressor


def cases():
    for kind in (FWRegressor, FWClassifier):
        for optimizer, where in PAIRS:
            model = kind(SETS[where](), OPTIMIZERS[optimizer](), intercept=where in ("l1", "box"), seed=1)
            for check in checks.yield_checks(model):
                # river lets memory grow for some seconds; how memory is held hangs on the optimizer alone.
                if check.__name__ == "check_bounded_memory_growth" and (where != "l1" or kind is FWClassifier):
                    continue
                yield pytest.param(model, check, id=f"{kind.__name__}-{optimizer}-{where}-{check.__name__}")


@pytest.mark.parametrize(("model", "check"), list(cases()))
def test_estimator(model, check):
    check(model.clone())


@pytest.mark.parametrize("kind", [FWRegressor, FWClassifier])
def test_in_a_pipeline(kind):
    model = preprocessing.StandardScaler() | kind(sets.L1Ball(5.0))
    for check in checks.yield_checks(model):
        # A StandardScaler learns a whole mini-batch before it transforms it, whatever model follows.
        if check.__name__ not in ("check_learn_many_matches_learn_one", "check_bounded_memory_growth"):
            check(model.clone())
