"""A loss of one's own
===================

A loss of one's own: any object with `__call__(y_true, y_pred)` and `gradient(y_true, y_pred)` will do.

Here: too little is three times as bad as too much. Such a loss runs by its own methods, so it is slower than the
compiled ones of river.
"""

from river import metrics

from fwonline import datasets, linear_model, optim, sets


class Shortage:
    """Squared error, with more weight where the prediction is too low."""

    def __init__(self, weight: float = 3.0) -> None:
        self.weight = weight

    def __call__(self, y_true: float, y_pred: float) -> float:
        error = y_pred - y_true
        return error * error * (self.weight if error < 0 else 1.0)

    def gradient(self, y_true: float, y_pred: float) -> float:
        error = y_pred - y_true
        return 2.0 * error * (self.weight if error < 0 else 1.0)


for loss in (None, Shortage()):
    stream = datasets.SparseLinear(n_features=20, n_informative=5, radius=5.0, noise=1.0, seed=4)
    model = linear_model.FWRegressor(
        constraint=sets.L1Ball(5.0), optimizer=optim.SFW(memory=500, batch_size=5), loss=loss, intercept=True, seed=4
    )
    mae, too_low = metrics.MAE(), 0
    for n, (x, y) in enumerate(stream.take(4_000)):
        if n >= 1_000:
            predicted = model.predict_one(x)
            mae.update(y, predicted)
            too_low += predicted < y
        model.learn_one(x, y)
    print(f"{type(model.fitted_loss).__name__:8}: {mae}, too low in {too_low / 3_000:.0%} of the cases")
