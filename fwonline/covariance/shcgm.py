"""Covariance matrices that are sparse, of low rank and positive semidefinite, learned sample by sample."""

from __future__ import annotations

import copy
import math
import typing
import warnings

import numpy as np
from river import base
from river import utils as river_utils

from fwonline import _loaded
from fwonline._checks import check_choice, check_count, is_real
from fwonline._kernels import layout, memory
from fwonline._merging import check_alike, shares
from fwonline.covariance._estimate import Estimate
from fwonline.covariance._merging import Part, blend, pool
from fwonline.covariance._methods import METHODS
from fwonline.covariance._state import LARGEST, State
from fwonline.exceptions import SampleError
from fwonline.features import FeatureIndex, describe

if typing.TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["SHCGMCovariance"]

# Below this fraction of the empirical l1 norm the constraint cuts into the covariance itself.
_LOW_FRACTION = 0.8
_MOST_STEPS = 10_000


class SHCGMCovariance(base.Estimator, Estimate):
    r"""A positive semidefinite covariance estimate: within bounds that are given, or shrunk as the stream asks.

    **With bounds** it minimises, over samples w of mean zero,

    .. math::
        \tfrac12 \mathbb{E} \|X - w w^\top\|_F^2 \quad \text{subject to} \quad
        X \succeq 0, \; \operatorname{tr} X \le \text{trace}, \; \sum_{ij} |X_{ij}| \le \text{l1}.

    The first two constraints hold at every sample: X is a sum of terms :math:`c\, v v^\top` with
    :math:`c \ge 0`, a few more each step. The third is approached by smoothing its indicator: the distance to it falls
    with the steps, and :meth:`feasible` scales what is left away in O(1). A step asks for a few extreme eigenvectors,
    where a projection would ask for all of them. This is half of equation 18 of [1]_: the minimum is the same, and the
    paper's beta0 = b stands for ``beta0=2 * b`` here.

    **Without any** (none of ``trace``, ``l1``, ``l1_fraction``, ``dual``, ``beta0``), with the empirical covariance S,

    .. math::
        \hat\Sigma = c_S S + c_X X + c_I \tfrac{\operatorname{tr} S}{n} I, \qquad c \ge 0, \; c_S + c_X + c_I = 1.

    X follows the positive semidefinite matrix of trace at most tr S that is nearest to those entries of S that stand
    clear of noise: a ball whose bounds are the trace and the l1 norm of these entries. The :attr:`weights` c are those
    of the least expected error. That of S is known from fourth moments, as in [5]_; that of X is measured by samples
    that X has not learned yet. Where the truth is no sparse matrix, X alone (:meth:`ball`) is worse than S and than
    shrinkage towards the identity; its weight is then 0, and the estimate is close to that of Ledoit and Wolf.

    When to use it: without bounds wherever a covariance is wanted of samples that are few, or not many times as many
    as features; with bounds that are known to be true.

    Parameters
    ----------
    trace
        The largest trace, > 0; None for the trace of what was seen so far.
    l1
        The largest l1 norm of the entries, > 0, ``math.inf`` for none; None for that of the empirical covariance so
        far, without the entries that do not stand clear of noise: those of at most
        :math:`2.9 \sqrt{s_{ii} s_{jj} / \text{samples}}`.
    method
        "mean" steps along the exact gradient of the mean over all samples seen, X - S with the running covariance S.
        "shcgm" is the paper's: a stochastic gradient with momentum, which does not remember S and so needs many more
        samples; it takes an ``l1`` in absolute terms.
    beta0
        Smoothing of the l1 constraint, > 0, without a unit: larger keeps closer to the data at first, smaller closer to
        the constraint. By default 3 for "mean", and the paper's 1 for "shcgm".
    center
        Whether the running mean is subtracted. Without it the second moment is estimated; a mean far from zero then
        outweighs the covariance.
    batch_size
        Samples a step, >= 1. With "mean" every sample enters at once and only the steps are fewer; with "shcgm" a
        batch makes one stochastic gradient.
    steps_per_update
        Steps taken when a batch is full, >= 1.
    fading_factor
        The least weight of a new sample, in [0, 1): 0 weighs all samples alike, 0.01 forgets them after some hundreds.
        Step and smoothing then stay where 2 / fading_factor steps bring them.
    l1_fraction
        In place of ``l1``: a fraction, in (0, 1], of the whole empirical l1 norm. Below 0.8 it cuts away what is true.
    missing
        The value of a feature that is absent from a sample: "zero", or "mean", its running mean, which shrinks its
        covariances by how seldom it comes. A feature never seen before was zero until then, either way.
    rank
        Directions of a step, >= 1: the rank of what it adds, at most. By default 16 for "mean", and the paper's 1 for
        "shcgm".
    dual
        Whether a dual matrix takes over from the smoothing: the l1 constraint is met sooner, at the price of two more
        triangles of memory and half as much time again.
    dtype
        "float64", or "float32": half the memory, and steps in about half the time from a thousand features on. The
        estimate is then positive semidefinite and feasible to single precision, values may be at most 1e15, and beyond
        some ten million samples, all weighed alike, a new one hardly counts.
    seed
        Seed of the eigenvector iteration's start.
    floor
        The least eigenvalue of the estimate relative to its mean variance, in [0, 1); above 0 the estimate is positive
        definite, as a likelihood asks. What is lacking is mixed in of the identity, which keeps the trace and, with
        bounds, all constraints.

    Notes
    -----
    A step moves X to :math:`X + \eta (S - X)`. With v the gradient of objective and smoothed constraint and
    :math:`Q` an orthonormal basis of the Krylov space that ``rank`` Lanczos steps on :math:`X - v / L \eta` span,

    .. math::
        S = \arg\min \{ \langle v, S \rangle + \tfrac12 L \eta \|S - X\|_F^2 :
            S = Q P Q^\top, \; P \succeq 0, \; \operatorname{tr} P \le \text{trace} \},

    where :math:`L = 1 + 1 / \beta`: the block step of [3]_, with a basis that is not iterated until it converges. The
    basis takes ``rank`` products, the one eigenvector of ``rank=1`` about 8.

    With ``dual`` the smoothed distance is that of :math:`X + \beta_k Y` to the l1 ball K, an augmented Lagrangian as in
    [4]_; after a step

    .. math::
        R = X - \operatorname{proj}_K(X + \beta_{k+1} Y), \qquad Y \leftarrow Y + \sigma R, \qquad
        \sigma = \min(1 / \beta_0, \; 4 \eta_k^2 \, \text{trace}^2 / (\beta_{k+1} \|R\|_F^2)).

    A step with n features costs about 20 passes over the n (n + 1) / 2 entries of a triangle, some 0.2 ms at n = 300
    and 3 ms at n = 1000. Memory: three such triangles. ``python -m tools.bench shrinkage`` compares the estimate
    without bounds with scikit-learn's, ``python -m tools.papers`` both methods on the paper's own test: there the
    running second moment is far ahead of "shcgm" and, scaled into the ball, thrice as far from the truth as "mean".

    References
    ----------
    .. [1] F. Locatello, A. Yurtsever, O. Fercoq, V. Cevher, `Stochastic Frank-Wolfe for Composite Convex Minimization
       <https://arxiv.org/abs/1901.10348>`_, NeurIPS 2019.
    .. [2] A. Yurtsever, O. Fercoq, F. Locatello, V. Cevher, `A Conditional Gradient Framework for Composite Convex
       Minimization with Applications to Semidefinite Programming <https://arxiv.org/abs/1804.08544>`_, ICML 2018.
    .. [3] Z. Allen-Zhu, E. Hazan, W. Hu, Y. Li, `Linear Convergence of a Frank-Wolfe Type Algorithm over Trace-Norm
       Balls <https://arxiv.org/abs/1708.02105>`_, NIPS 2017.
    .. [4] A. Yurtsever, O. Fercoq, V. Cevher, `A Conditional-Gradient-Based Augmented Lagrangian Framework
       <https://arxiv.org/abs/1901.04013>`_, ICML 2019.
    .. [5] O. Ledoit, M. Wolf, `A well-conditioned estimator for large-dimensional covariance matrices
       <https://doi.org/10.1016/S0047-259X(03)00096-4>`_, Journal of Multivariate Analysis 88, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from fwonline import covariance, datasets
    >>> stream = datasets.BlockCovariance(n_features=30, n_blocks=5, seed=1)
    >>> cov = covariance.SHCGMCovariance(seed=1)
    >>> for x, _ in stream.take(100):
    ...     cov.update(x)
    >>> truth = stream.covariance
    >>> bool(np.sum((cov.to_numpy() - truth) ** 2) < 0.1 * np.sum(truth**2))
    True
    >>> isinstance(cov[0, 3], float), cov[0, 3] == cov[3, 0]
    (True, True)
    >>> {name: round(share, 1) for name, share in cov.weights.items()}
    {'empirical': 0.0, 'ball': 1.0, 'identity': 0.0}
    >>> cov = covariance.SHCGMCovariance(floor=0.01, seed=1)
    >>> for x, _ in stream.take(10):
    ...     cov.update(x)
    >>> float(np.linalg.slogdet(cov.to_numpy()).sign)  # of 30 features, after 10 samples
    1.0
    """

    def __init__(
        self,
        trace: float | None = None,
        l1: float | None = None,
        method: str = "mean",
        beta0: float | None = None,
        center: bool = True,
        batch_size: int = 1,
        steps_per_update: int = 1,
        fading_factor: float = 0.0,
        l1_fraction: float | None = None,
        missing: str = "zero",
        rank: int | None = None,
        dual: bool = False,
        dtype: str = "float64",
        seed: int | None = None,
        *,
        floor: float = 0.0,
    ):
        self.trace = trace
        self.l1 = l1
        self.method = method
        self.beta0 = beta0
        self.center = center
        self.batch_size = batch_size
        self.steps_per_update = steps_per_update
        self.fading_factor = fading_factor
        self.l1_fraction = l1_fraction
        self.missing = missing
        self.rank = rank
        self.dual = dual
        self.dtype = dtype
        self.seed = seed
        self.floor = floor
        self._check_parameters()
        kind = METHODS[method]
        self._method = kind(
            beta0=kind.default_beta0 if beta0 is None else float(beta0),
            batch_size=int(batch_size),
            fading=float(fading_factor),
            centre=bool(center),
            absent_is_mean=missing == "mean",
        )
        self._features = FeatureIndex()
        rank = kind.default_rank if rank is None else int(rank)
        self._state = State(rank, bool(dual), dtype, seed, shrinks=self._is_free)

    def _check_parameters(self) -> None:
        check_choice("method", self.method, tuple(METHODS))
        check_choice("missing", self.missing, ("zero", "mean"))
        for name in ("trace", "l1", "beta0", "l1_fraction"):
            value, most = getattr(self, name), 1.0 if name == "l1_fraction" else layout.LARGEST
            is_none = value is None or (name == "l1" and value == math.inf)
            if not is_none and not (is_real(value) and 0.0 < value <= most):
                raise ValueError(f"{name} must be a number in (0, {most:g}] or None, got {value!r}")
        for name in ("fading_factor", "floor"):
            value = getattr(self, name)
            if not (is_real(value) and 0.0 <= value < 1.0):
                raise ValueError(f"{name} must be a number in [0, 1), got {value!r}")
        check_count("batch_size", self.batch_size)
        check_count("steps_per_update", self.steps_per_update)
        if self.rank is not None:
            check_count("rank", self.rank)
        check_choice("center", self.center, (True, False))
        check_choice("dual", self.dual, (True, False))
        check_choice("dtype", self.dtype, tuple(LARGEST))
        if self.l1 is None and not METHODS[self.method].knows_moment:
            raise ValueError(f"method={self.method!r} keeps no empirical covariance to take an l1 norm from: give l1")
        if self.l1 is not None and self.l1_fraction is not None:
            raise ValueError(f"give l1={self.l1} or l1_fraction={self.l1_fraction}, not both")
        if self.l1_fraction is not None and self.l1_fraction < _LOW_FRACTION:
            warnings.warn(
                f"l1_fraction={self.l1_fraction} is low: below {_LOW_FRACTION} the estimate loses much of the "
                "covariance",
                stacklevel=3,
            )

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict]:
        yield {"seed": 1}
        yield {"method": "shcgm", "trace": 10.0, "l1": 50.0, "seed": 1}

    @property
    def _is_free(self) -> bool:
        """Whether no bound is given, nor what only the steps towards a bound read."""
        given = self.trace, self.l1, self.l1_fraction, self.beta0
        return METHODS[self.method].knows_moment and not self.dual and all(value is None for value in given)

    @property
    def _supervised(self) -> bool:
        return False

    def _check_loaded(self) -> None:
        fresh = _loaded.rebuilt(self)
        _loaded.like(self, fresh)
        # Who makes a model may choose any number of steps for a sample, a file may not.
        _loaded.require(self, "steps_per_update", self.steps_per_update <= _MOST_STEPS, f"at most {_MOST_STEPS}")
        _loaded.require(self, "batch_size", self.batch_size <= _loaded.MOST, f"at most {_loaded.MOST}")
        state = _loaded.instance(self, "_state", State)
        features = _loaded.instance(self, "_features", FeatureIndex)
        _loaded.claim(self, "_state", "_features")
        _loaded.require(state, "evidence", (state.evidence is None) != self._is_free, "there where no bound is given")
        if state.evidence is not None:
            _loaded.claim(state, "evidence")
        _loaded.like(state, fresh._state, "rank", "dual", "dtype_name")
        self._method = fresh._method
        state.check_loaded(self._method.batch_size)
        positions = features.positions
        unbounded = features.most is None and features.dimension is None
        _loaded.require(self, "_features", unbounded, "features that are as many as samples bring")
        _loaded.require(
            features,
            "names",
            len(features) == len(positions) == state.n
            and all(positions.get(name) == j for j, name in enumerate(features.names)),
            f"{state.n} names, as many as the matrix has rows",
        )
        if self.trace is not None:
            most = (1.0 + (1e-3 if self.dtype == "float32" else 1e-6)) * self.trace
            _loaded.require(state, "x", state.trace() <= most, f"a trace of at most {self.trace}")

    # --- learning ---------------------------------------------------------------------------------------------

    def update(self, x: dict) -> None:
        """Learn from one sample.

        Parameters
        ----------
        x
            Feature names, of any hashable types, to numbers. One never seen is added; for an absent one see
            ``missing``.

        Raises
        ------
        SampleError
            For a value that is no finite number of at most 1e100 (1e15 with ``dtype="float32"``), or more features
            than memory has room for; the estimate is then as it was before.
        """
        state, features = self._state, self._features
        try:
            count = features.load(x, state)
            if not memory.largest_of(state.val.view(np.int64), 0, count) <= LARGEST[self.dtype]:
                raise SampleError(self._describe(x))
            state.grow(len(features))
        except BaseException:
            state.n = min(state.n, features.rollback())
            raise
        features.commit()
        self._learn(count)

    def learn_one(self, x: dict) -> None:
        """Learn from one sample, as :meth:`update` does: what pipelines and the event loop call."""
        self.update(x)

    def update_many(self, X: typing.Any) -> None:
        """Learn from the rows of a frame, one after another; the same as :meth:`update` with each of them.

        Parameters
        ----------
        X
            A frame of pandas, polars or another library that river takes: samples x features.

        Raises
        ------
        SampleError
            At the first row that cannot be learned: the message names it, and the rows before it have been learned.
        """
        frame = river_utils.dataframe.into_frame(X)
        self._learn_matrix(river_utils.dataframe.to_numpy(frame), list(frame.columns))

    def learn_many(self, X: typing.Any) -> None:
        """Learn from the rows of a frame, as :meth:`update_many` does."""
        self.update_many(X)

    def learn_arrays(self, X: typing.Any) -> None:
        """Learn from the rows of a dense array; column j is the feature named j.

        Raises
        ------
        SampleError
            As in :meth:`update_many`.
        ValueError
            If X is no matrix.
        """
        array = np.asarray(X, dtype=np.float64)
        if array.ndim != 2:
            raise ValueError(f"X must be a matrix of samples x features, got shape {array.shape}")
        self._learn_matrix(array, range(array.shape[1]))

    def _learn_matrix(self, X: NDArray[np.float64], names: Sequence[typing.Any]) -> None:
        bad = np.flatnonzero(~(np.abs(X) <= LARGEST[self.dtype]).all(axis=1))
        good = int(bad[0]) if bad.size else len(X)
        state = self._state
        if good:
            self._add(lambda: self._features.load_columns(names, state))
        for row in X[:good]:
            state.val[: len(names)] = row
            self._learn(len(names))
        if bad.size:
            raise SampleError(f"row {good}: {self._describe(dict(zip(names, X[good].tolist(), strict=True)))}")

    def _add(self, features: Callable[[], object]) -> None:
        """Add features to the index, and room for them to the matrices; both or neither."""
        try:
            features()
            self._state.grow(len(self._features))
        except BaseException:
            self._state.n = min(self._state.n, self._features.rollback())
            raise
        self._features.commit()

    def _describe(self, x: dict) -> str | None:
        """What is wrong with a sample."""
        largest = LARGEST[self.dtype]
        return describe(x) or next(
            f"feature {name!r} is {value!r}; expected a number of at most {largest:g} in size with dtype={self.dtype!r}"
            for name, value in x.items()
            if abs(value) > largest
        )

    def _learn(self, count: int) -> None:
        """Learn the sample in the state's buffers."""
        if self._method.enter(self._state, count):
            # without bounds the l1 norm of what the steps aim at is within its own
            l1 = math.inf if self._is_free else self._l1_bound
            for _ in range(self.steps_per_update):
                self._method.step(self._state, self._trace_bound, l1)

    def merged(self, others: typing.Iterable[typing.Self]) -> typing.Self:
        r"""Return an estimate of what this one and others have learned of parts of one stream.

        Means, second moments and what is known of their sizes are pooled as if one had seen everything (with
        ``fading_factor``, as if the parts had come side by side). With :math:`s_p` the part of all samples that
        estimate p has learned and :math:`\mu_p` its means,

        .. math::
            X = \sum_p s_p X_p + c \sum_p s_p (\mu_p - \mu) (\mu_p - \mu)^\top, \qquad 0 \le c \le 1,

        the covariance within the parts and, if samples are centred, between them; c is the largest for which trace and
        l1 norm stay within their bounds, or 0. X is positive semidefinite, its trace is within its bound, and its l1
        norm is no further out than the first sum's. A feature that an estimate has not met was 0 there. The
        merge may learn on, and the estimates are left as they are. O(n^2) for each.

        Parameters
        ----------
        others
            Estimates with the same constraints, method, ``center``, ``missing``, ``fading_factor``, ``dual``,
            ``dtype`` and ``floor``.

        Raises
        ------
        ValueError
            When one is of another kind.
        SampleError
            When memory has no room for the features of all.
        """
        models = [self, *others]
        alike = "trace l1 l1_fraction method center missing fading_factor dual dtype floor"
        check_alike(models, *alike.split())
        if len({model._is_free for model in models}) > 1:
            raise ValueError("expected models of one kind, found one whose beta0 is given and one without any bound")
        learned = [(model, share) for model, share in zip(models, shares(models), strict=True) if share]
        if len(learned) == 1:
            return copy.deepcopy(learned[0][0])
        whole = self.clone()
        if learned:
            names = {name: None for model, _ in learned for name in model.features}
            whole._add(lambda: whole._features.add(names))
            positions = whole._features.positions
            parts = [
                Part(model._state, share, np.array([positions[name] for name in model.features], dtype=np.intp))
                for model, share in learned
            ]
            apart = pool(whole._state, whole._method, parts)
            blend(whole._state, whole._method, apart, whole._trace_bound, whole._l1_bound)
        return whole

    # --- the constraints --------------------------------------------------------------------------------------

    @property
    def _trace_bound(self) -> float:
        return self._state.second_moment_trace if self.trace is None else float(self.trace)

    @property
    def _l1_bound(self) -> float:
        if self.l1 is not None:
            return float(self.l1)
        state = self._state
        return state.clear_l1 if self.l1_fraction is None else self.l1_fraction * state.empirical_l1

    @property
    def support_size(self) -> int:
        """The rank of the estimate, by its eigenvalues. O(n^3)."""
        return int(np.linalg.matrix_rank(self.to_numpy(), hermitian=True)) if self._state.n else 0

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={getattr(self, name)!r}" for name in self._get_params() if getattr(self, name) is not None
        )
        return f"{type(self).__name__}({shown})"

    __str__ = __repr__
