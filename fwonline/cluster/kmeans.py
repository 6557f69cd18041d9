"""k-means on a stream, by its semidefinite relaxation over a sample of the points."""

from __future__ import annotations

import copy
import itertools
import math
import numbers
import typing

import numpy as np
from river import base

from fwonline import _loaded
from fwonline._checks import check_choice, check_count, check_positive
from fwonline._kernels.layout import LARGEST
from fwonline._merging import check_alike
from fwonline.cluster import _rounding
from fwonline.cluster._methods import METHODS
from fwonline.cluster._relaxation import Relaxation
from fwonline.exceptions import SampleError
from fwonline.features import rank_of

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["SHCGMKMeans"]

# What numpy's sampler takes at most.
_MOST_COUNTED = 10**9 - 1


class SHCGMKMeans(base.Clusterer):
    r"""Clusters found by the semidefinite relaxation of k-means, so that no start has to be lucky.

    .. math::

        \min_X \langle D, X \rangle \quad\text{over}\quad X \succeq 0,\; \operatorname{tr} X = k,\; X 1 = 1,\; X \ge 0

    for the squared distances D of the points (Peng and Wei 2007). `n_points` points, a uniform sample of the stream
    (all of it while it is short), take part in X. Every `batch_size` samples a conditional gradient step sees the
    distances of `batch_size` random ones of them, then X is rounded as Mixon, Villar and Ward do: the points as X mixes
    them lie at few places; each point joins the nearest of `n_clusters` of these. Lloyd's iterations over the points
    held go on from there, and from the clusters before; the better of the two are the clusters. Labels are kept from
    one rounding to the next.

    A point that enters takes the row of X of the point nearest to it. `method="mean"` keeps every distance that it has
    seen, `method="shcgm"` estimates D as Algorithm 1 of Locatello et al. does, and weighs X >= 0 by n_points as their
    experiment does, which smooths it as X 1 = 1 is. A step costs O(n_points^2), about ten products of a matrix of that
    size with a vector; memory is 12 bytes times n_points^2.

    Features are used as they are: a scaler before this makes them count alike.

    Parameters
    ----------
    n_clusters
        Number of clusters, at least 2.
    method
        "mean" or "shcgm".
    n_points
        How many points take part in X, more than `n_clusters`.
    batch_size
        Samples from one step to the next, and points whose distances a step sees; at least 2.
    beta0
        Smoothing at the start, > 0: a small one brings X sooner to X 1 = 1 and X >= 0, and moves it less towards small
        distances. In units of k / n_points over the mean squared distance for "mean"; for "shcgm" it is the paper's, an
        absolute number that depends on the scale of the features.
    seed
        Random seed number used for reproducibility.

    Notes
    -----
    On the 1,000 points and ten clusters of Locatello et al. 10,000 steps that see 1% of the distances each round to
    78.28; as many that see all of them to 78.27, the least known. After 1,000 steps it is 81, from where Lloyd's
    iterations find 78.3. The paper's method rounds to 169 after 10,000 steps with `beta0=1`, to 78.28 with `beta0=10`:
    `python -m tools.papers locatello-1`.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import cluster
    >>> model = cluster.SHCGMKMeans(n_clusters=3, n_points=60, batch_size=20, seed=1)
    >>> rng = np.random.default_rng(0)
    >>> for t in range(600):
    ...     x, y = np.array([(0, 0), (1, 0), (0, 1)])[t % 3] + 0.1 * rng.standard_normal(2)
    ...     model.learn_one({"x": x, "y": y})
    >>> labels = [model.predict_one({"x": x, "y": y}) for x, y in [(0, 0), (1, 0), (0, 1), (0.1, 0)]]
    >>> len(set(labels)), labels[0] == labels[3]
    (3, True)

    References
    ----------
    .. [1] `Peng, J., Wei, Y., 2007. Approximating k-means-type clustering via semidefinite programming. SIAM
       Journal on Optimization 18(1) <https://doi.org/10.1137/050641983>`__
    .. [2] `Mixon, D., Villar, S., Ward, R., 2017. Clustering subgaussian mixtures by semidefinite programming.
       Information and Inference 6(4) <https://arxiv.org/abs/1602.06612>`__
    .. [3] `Locatello, F., Yurtsever, A., Fercoq, O., Cevher, V., 2019. Stochastic Frank-Wolfe for composite convex
       minimization. NeurIPS <https://arxiv.org/abs/1901.10348>`__
    """

    def __init__(
        self,
        n_clusters: int,
        method: str = "mean",
        n_points: int = 1000,
        batch_size: int = 100,
        beta0: float = 1.0,
        seed: int | None = None,
    ):
        check_count("n_clusters", n_clusters)
        check_count("n_points", n_points)
        check_count("batch_size", batch_size)
        if not 2 <= n_clusters < n_points:
            raise ValueError(f"n_clusters must be from 2 to n_points - 1 = {n_points - 1}, got {n_clusters}")
        if batch_size < 2:
            raise ValueError(f"batch_size must be at least 2, got {batch_size}")
        check_choice("method", method, METHODS)
        check_positive("beta0", beta0)
        self.n_clusters = n_clusters
        self.method = method
        self.n_points = n_points
        self.batch_size = batch_size
        self.beta0 = beta0
        self.seed = seed
        self._features: dict[typing.Any, int] = {}
        self._method = METHODS[method](batch_size, float(beta0))
        self._relaxation = Relaxation(n_clusters, seed)
        self._centres = np.zeros((0, 0))
        self._rounded = math.nan
        self._waiting = 0
        self.n_samples = 0

    @classmethod
    def _unit_test_params(cls) -> typing.Iterator[dict]:
        yield {"n_clusters": 3}
        yield {"n_clusters": 2, "n_points": 30, "batch_size": 10, "method": "shcgm"}

    # --- learning ---

    def learn_one(self, x: dict) -> None:
        """Learn from one point; a step is taken when a batch is complete.

        Parameters
        ----------
        x
            Feature names to numbers; an absent feature is 0.

        Raises
        ------
        SampleError
            For a value that is no finite number; the model is then as it was before.
        MemoryError
            Where X over one more point, or the points, would not fit into memory; the model is then as it was before.
        """
        self._enter(x)
        if self._waiting >= self.batch_size:
            self.advance()

    def store(self, X: ArrayLike) -> None:
        """Take in the rows of a matrix without taking a step: the offline way in, with :meth:`advance`.

        Parameters
        ----------
        X
            Points x features; column j is the feature named j.

        Raises
        ------
        SampleError
            At the first row that cannot be stored: the message names it; those before it are stored.
        MemoryError
            As in :meth:`learn_one`.
        ValueError
            If X is no matrix.
        """
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2:
            raise ValueError(f"X must be a matrix of points x features, got shape {rows.shape}")
        for number, row in enumerate(rows.tolist()):
            try:
                self._enter(dict(enumerate(row)))
            except SampleError as error:
                raise SampleError(f"row {number}: {error}") from None

    def _enter(self, x: dict) -> None:
        values = {name: _number(name, value) for name, value in x.items()}
        relaxation = self._relaxation
        new = sorted((name for name in values if name not in self._features), key=rank_of)
        relaxation.make_room(self.n_points, len(self._features) + len(new))
        for name in new:
            self._features[name] = len(self._features)
        self.n_samples += 1
        self._waiting += 1
        place = relaxation.n
        if place == self.n_points:
            place = int(relaxation.rng.integers(self.n_samples))
        if place < self.n_points:
            relaxation.put(self._vector(values), place)

    def _vector(self, x: dict) -> NDArray[np.float64]:
        out = np.zeros(self._relaxation.points.shape[1])
        for name, value in x.items():
            if (place := self._features.get(name)) is not None:
                out[place] = value
        return out

    def advance(self, steps: int = 1) -> None:
        """Take so many steps on the points there are, and round; nothing before there are more than clusters."""
        check_count("steps", steps)
        if self._relaxation.n <= self.n_clusters:
            return
        self._waiting = 0
        for _ in range(steps):
            self._method.step(self._relaxation)
        self._round()

    def _round(self) -> None:
        relaxation = self._relaxation
        points = relaxation.points[: relaxation.n]
        labels = _rounding.places(relaxation.smoothed(), self.n_clusters)
        # a label without a point, as where all points are equal, takes the mean of all as its centre
        nowhere = np.tile(points.mean(axis=0), (self.n_clusters, 1))
        centres = _rounding.means(points, labels, nowhere)
        self._rounded = _rounding.value(points, _rounding.assign(points, centres))
        starts = [centres]
        if self._centres.size:
            starts.append(np.zeros(centres.shape))
            starts[1][:, : self._centres.shape[1]] = self._centres
        self._refine(starts)

    def _refine(self, starts: Sequence[NDArray[np.float64]]) -> None:
        """The best clusters that Lloyd's iterations find from these centres, in the order of the last of these."""
        points = self._relaxation.points[: self._relaxation.n]
        found = [(*_rounding.lloyd(points, start), start) for start in starts]
        labels, _, start = min(found, key=lambda clusters: clusters[1])
        self._centres = _rounding.matched(_rounding.means(points, labels, start), starts[-1])

    def merged(self, others: typing.Iterable[typing.Self]) -> typing.Self:
        r"""Return a model of the clusters of what this model and others have learned of parts of one stream.

        It holds `n_points` points, a uniform sample of all (all of them where they are few), drawn from the samples of
        the models in proportion to what each has learned. Its clusters are the best over these points that Lloyd's
        iterations find from each model's centres and from starts spread over the points: those that all parts share,
        and those that only one has seen. Labels are those of the first model that has clusters, each cluster taking the
        label for which the centres move the least.

        X is that of the clusters, :math:`X_{ij} = 1 / |C|` for points i and j of one cluster C, which meets all
        constraints. The merge may learn on; the models are left as they are. O(n_points^2) for each start.

        Parameters
        ----------
        others
            Models with the same method and as many clusters and points.

        Raises
        ------
        ValueError
            When one is of another kind.
        MemoryError
            As in :meth:`learn_one`, for the features of all.
        """
        models = [self, *others]
        check_alike(models, "n_clusters", "method", "n_points")
        learned = [model for model in models if model.n_samples]
        if len(learned) == 1:
            return copy.deepcopy(learned[0])
        whole = self.clone()
        if not learned:
            return whole
        for model in learned:
            for name in model._features:
                whole._features.setdefault(name, len(whole._features))
        relaxation = whole._relaxation
        samples = [whole._widened(model, model._relaxation.points[: model._relaxation.n]) for model in learned]
        points = _pooled(samples, [model.n_samples for model in learned], self.n_points, relaxation.rng)
        relaxation.make_room(self.n_points, len(whole._features), len(points))
        relaxation.fill(points)
        whole.n_samples = sum(model.n_samples for model in learned)
        starts = [whole._widened(model, model._centres) for model in learned if model._centres.size]
        if starts:
            nowhere = np.tile(points.mean(axis=0), (self.n_clusters, 1))
            starts.append(_rounding.means(points, _rounding.places(points, self.n_clusters), nowhere))
            whole._refine(starts[::-1])
            labels = _rounding.occupied(points, _rounding.assign(points, whole._centres), self.n_clusters)
            relaxation.set_partition(labels, max(model.n_steps for model in learned))
            whole._rounded = whole.value
        return whole

    def _widened(self, other: typing.Self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows over another model's features, or over the first of them, as rows over the features of this one."""
        out = np.zeros((len(rows), len(self._features)))
        names = itertools.islice(other._features, rows.shape[1])
        out[:, [self._features[name] for name in names]] = rows
        return out

    def _check_loaded(self) -> None:
        fresh = _loaded.rebuilt(self)
        _loaded.like(self, fresh)
        _loaded.require(self, "batch_size", self.batch_size <= _loaded.MOST, f"at most {_loaded.MOST}")
        relaxation = _loaded.instance(self, "_relaxation", Relaxation)
        _loaded.claim(self, "_relaxation")
        _loaded.like(relaxation, fresh._relaxation, "n_clusters")
        self._method = fresh._method
        relaxation._check_loaded()
        self._features = dict(_loaded.instance(self, "_features", dict))
        _loaded.names(self, "_features", self._features)
        features = len(self._features)
        is_numbered = all(type(j) is int and j == k for k, j in enumerate(self._features.values()))
        _loaded.require(self, "_features", is_numbered, "names in the order of their positions")
        known = relaxation.points.shape[1]
        _loaded.require(relaxation, "points", known == features, f"{features} columns")
        seen = _loaded.count(self, "n_samples")
        held = min(seen, self.n_points)
        _loaded.require(relaxation, "n", relaxation.n == held, f"{held} points, for {seen} samples")
        _loaded.require(relaxation, "points", len(relaxation.points) <= self.n_points, f"at most {self.n_points}")
        rows, columns = _loaded.array(self, "_centres", np.float64, (None, None), least=-LARGEST, most=LARGEST).shape
        is_whole = rows == self.n_clusters if relaxation.steps else rows == columns == 0
        _loaded.require(self, "_centres", is_whole and columns <= features, "a centre for each cluster, after a step")
        _loaded.real(self, "_rounded", nan=True, inf=True)
        _loaded.count(self, "_waiting")

    # --- predictions and measures ---

    def predict_one(self, x: dict) -> int:
        """The cluster of the nearest centre; 0 before the first step."""
        if not self._centres.size:
            return 0
        values = {name: _number(name, value) for name, value in x.items()}
        point = self._vector(values)[: self._centres.shape[1]]
        return int(np.argmin(((self._centres - point) ** 2).sum(axis=1)))

    @property
    def centers(self) -> dict[int, dict]:
        """The clusters' centres: label to feature to value; empty before the first step."""
        names = list(self._features)[: self._centres.shape[1]]
        return {label: dict(zip(names, row.tolist(), strict=True)) for label, row in enumerate(self._centres)}

    @property
    def value(self) -> float:
        """<D, X> of the clusters over the points held, twice their k-means cost; NaN before the first step.

        The relaxation's minimum bounds it from below.
        """
        relaxation = self._relaxation
        if not self._centres.size:
            return math.nan
        points = relaxation.points[: relaxation.n, : self._centres.shape[1]]
        return _rounding.value(relaxation.points[: relaxation.n], _rounding.assign(points, self._centres))

    @property
    def rounded_value(self) -> float:
        """What `value` was for the clusters that X rounded to last, before Lloyd's iterations; NaN before the first."""
        return self._rounded

    @property
    def objective(self) -> float:
        """<D, X> of the relaxation, with the exact distances; below its minimum where X is not feasible."""
        return self._relaxation.objective() if self._relaxation.steps else math.nan

    @property
    def support_size(self) -> int:
        """The rank of X over the points held, by its eigenvalues. O(n_points^3)."""
        x = self.to_numpy()
        return int(np.linalg.matrix_rank(x, hermitian=True)) if x.size else 0

    @property
    def infeasibility(self) -> tuple[float, float]:
        """||X 1 - 1|| / ||1|| and ||min(X, 0)|| / ||X||; zeros before the first step."""
        return self._relaxation.row_infeasibility(), self._relaxation.negativity()

    @property
    def violation(self) -> float:
        """How far X is from both constraints, in the Frobenius norm; 0.0 before the first step. O(n_points^2)."""
        return self._relaxation.violation()

    @property
    def gap(self) -> float:
        """The Frank-Wolfe gap of the last step's smoothed objective at the estimated distances; NaN before it."""
        return self._relaxation.gap

    @property
    def lmo_error(self) -> float:
        """By how much the last linear minimum may be missed, from the residual of its eigenvector.

        A bound once that is nearest to the lowest eigenvector; `gap` is too small by no more.
        """
        return self._relaxation.lmo_error

    @property
    def n_steps(self) -> int:
        """Steps taken."""
        return self._relaxation.steps

    def to_numpy(self) -> NDArray[np.float64]:
        """X, over the points held."""
        return self._relaxation.to_numpy()


def _pooled(
    samples: Sequence[NDArray[np.float64]], counts: Sequence[int], most: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """A uniform sample, of at most `most` points, of a stream in parts of `counts` points, each sampled alike."""
    total = sum(counts)
    parts = counts if total <= _MOST_COUNTED else [count * _MOST_COUNTED // total for count in counts]
    taken = rng.multivariate_hypergeometric(parts, min(most, total))
    chosen = (rng.choice(len(sample), count, replace=False) for sample, count in zip(samples, taken, strict=True))
    return np.concatenate([sample[np.sort(rows)] for sample, rows in zip(samples, chosen, strict=True)])


def _number(name: typing.Any, value: typing.Any) -> float:
    if isinstance(value, (numbers.Real, np.bool_)):
        number: typing.Any = value  # an integer may be too large to become a float
        if abs(number) <= LARGEST:
            return float(number)
    raise SampleError(f"feature {name!r} is {value!r}; expected a finite number of at most {LARGEST:g} in size")
