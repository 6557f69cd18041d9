"""A sparse classifier in a pipeline
=================================

A sparse classifier in a river pipeline: the l1 ball decides how many features it may use.

Each sample is predicted before it is learned, as river's progressive validation does.
"""

from river import datasets, evaluate, metrics, preprocessing

from fwonline import linear_model, optim, sets

for radius in (1.0, 3.0, 10.0):
    model = preprocessing.StandardScaler() | linear_model.FWClassifier(
        constraint=sets.L1Ball(radius),
        optimizer=optim.SFW(memory=1_000, steps_per_sample=4, batch_size=10),
        intercept=True,
        seed=42,
    )
    rocauc = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.ROCAUC())
    classifier = model["FWClassifier"]
    strongest = sorted(classifier.weights, key=lambda name: -abs(classifier.weights[name]))[:2]
    print(f"radius {radius:4}: {rocauc}, {len(classifier.weights)} features, strongest: {', '.join(strongest)}")
