"""Sets in a scikit-learn grid
===========================

In scikit-learn: a pipeline, a grid over sets, weights of samples; then the same estimator on a stream."""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fwonline import sets
from fwonline.compat.sklearn import FrankWolfeClassifier

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)

# A number is the radius of an l1 ball. `fit` ends when a certificate says how little there is left to gain.
model = make_pipeline(StandardScaler(), FrankWolfeClassifier(tol=1e-3))
grid = {"frankwolfeclassifier__constraint": [0.5, 2.0, 8.0, sets.L2Ball(2.0)]}
search = GridSearchCV(model, grid, cv=5).fit(X_train, y_train)
for constraint, score in zip(
    search.cv_results_["param_frankwolfeclassifier__constraint"], search.cv_results_["mean_test_score"], strict=True
):
    print(f"{constraint!s:>18}: accuracy {score:.3f}")

best = search.best_estimator_[-1]
print(
    f"best: {best.constraint}, {np.count_nonzero(best.coef_)} of {X.shape[1]} features; on {len(y_test)} rows never "
    f"seen: {search.score(X_test, y_test):.3f}; the loss is at most {best.gap_:.1e} above the least in the set"
)

# A sample of weight 3 counts as three.
heavy = make_pipeline(StandardScaler(), FrankWolfeClassifier(2.0, tol=1e-3))
heavy.fit(X_train, y_train, frankwolfeclassifier__sample_weight=np.where(y_train == 0, 3.0, 1.0))
found = (heavy.predict(X_test) == 0)[y_test == 0].mean()
print(f"malignant ones found with three times their weight: {found:.3f}")

# The same estimator learns a stream, a batch at a time.
scaler, stream = StandardScaler(), FrankWolfeClassifier(8.0, random_state=0)
right = []
for rows in np.array_split(np.arange(len(y_train)), 20):
    scaler.partial_fit(X_train[rows])
    batch = scaler.transform(X_train[rows])
    if rows[0] > 0:
        right.extend(stream.predict(batch) == y_train[rows])
    stream.partial_fit(batch, y_train[rows], classes=[0, 1])
print(f"as a stream, each batch predicted before it is learned: {np.mean(right):.3f}")
