"""Matrix completion in a nuclear norm ball and a box, one rating at a time."""

from __future__ import annotations

import copy
import math
import numbers
import typing

import numpy as np
from river.reco.base import Ranker

from fwonline import _loaded
from fwonline._checks import check_choice, check_count, check_positive, is_real
from fwonline._kernels.layout import LARGEST
from fwonline._merging import check_alike
from fwonline.exceptions import SampleError
from fwonline.reco._base import Problem
from fwonline.reco._dense import Dense
from fwonline.reco._factored import Factored
from fwonline.reco._merging import parts_of
from fwonline.reco._ratings import Ratings

if typing.TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["SHCGMCompletion"]

_SAMPLE = 10_000
_METHODS: dict[str, type[Factored] | type[Dense]] = {"hcgm": Factored, "shcgm": Dense}


class SHCGMCompletion(Ranker):
    r"""Ratings completed to a matrix of low rank whose entries lie in a box.

    .. math::

        \min_X \sum_{(i, j) \text{ rated}} (X_{ij} - Y_{ij})^2 \quad\text{over}\quad \|X\|_* \le \text{radius},\;
        \text{lower} \le X_{ij} \le \text{upper}

    Conditional gradient steps keep the nuclear norm within the radius without a singular value decomposition; the box
    is approached by smoothing its distance less and less. Every rating is stored (24 bytes and as much for finding it
    again); a second rating of an item by the same user replaces the first. A step is taken every `batch_size` ratings.

    With `method="hcgm"` the mean and the biases of users and items are taken off first, and X, held in factors, is what
    they leave; a step takes the gradient over all ratings stored, and costs a few passes over these and nothing that
    grows with users x items. The box is imposed on mean, biases and X together, at the ratings and at `batch_size`
    other entries drawn for each step. `method="shcgm"` is the paper's Algorithm 1: X is the ratings themselves, every
    entry of it written out and held to the box, and a step draws `batch_size` of the ratings. It takes 16 bytes for
    each of users x items.

    Predictions are clipped to the box. A user or item not seen yet is predicted by the mean and the biases there are.

    Parameters
    ----------
    radius
        Largest nuclear norm. None leaves it to the method: for "hcgm" it begins at the Frobenius norm of what mean and
        biases leave, and grows by a twentieth at a step as long as new ratings show that X is too small; for
        "shcgm" it is one and a half times the nuclear norm of a constant matrix of the ratings' root mean square.
    lower, upper
        The box; None for no bound. Ratings outside it are refused.
    method
        "hcgm" or "shcgm".
    beta0
        Smoothing at the start, > 0: a small one brings entries into the box sooner, and disturbs the fit.
    batch_size
        Ratings from one step to the next, and of the sample that "shcgm" draws.
    seed
        Random seed number used for reproducibility.

    Notes
    -----
    On MovieLens 100k (the split `ub`, batches of 1,000, beta0 = 10) "hcgm" has a test RMSE of 0.949 after 300 steps, in
    less than a second (radius 1,000; 0.950 as a stream that finds its radius), "shcgm" 1.14 after 10,000 (radius
    7,000), mean and biases alone 0.973: `python -m tools.papers locatello-4`.

    Examples
    --------
    >>> from fwonline import datasets, reco
    >>> model = reco.SHCGMCompletion(lower=1.0, upper=5.0, seed=1)
    >>> ratings = datasets.LowRankRatings(n_users=50, n_items=80, rank=1, seed=1)
    >>> for x, y in ratings.take(3_000):
    ...     model.learn_one(**x, y=y)
    >>> [round(model.predict_one(user=13, item=item)) for item in (1, 2, 6)], ratings.matrix[13, [1, 2, 6]]
    ([1, 5, 5], array([1., 5., 5.]))
    >>> model.rank(user=13, items={1, 2, 6})
    [6, 2, 1]
    >>> model.learn_one(user=13, item=22, y=9.0)
    Traceback (most recent call last):
    ...
    fwonline.exceptions.SampleError: the rating of item 22 by user 13 is 9.0; expected a number from 1.0 to 5.0

    References
    ----------
    .. [1] `Locatello, F., Yurtsever, A., Fercoq, O., Cevher, V., 2019. Stochastic Frank-Wolfe for composite convex
       minimization. NeurIPS <https://arxiv.org/abs/1901.10348>`__
    .. [2] `Yurtsever, A., Fercoq, O., Locatello, F., Cevher, V., 2018. A conditional gradient framework for
       composite convex minimization with applications to semidefinite programming. ICML
       <https://arxiv.org/abs/1804.08544>`__
    """

    def __init__(
        self,
        radius: float | None = None,
        lower: float | None = None,
        upper: float | None = None,
        method: str = "hcgm",
        beta0: float = 10.0,
        batch_size: int = 100,
        seed: int | None = None,
    ):
        super().__init__(seed=seed)
        check_choice("method", method, _METHODS)
        check_positive("beta0", beta0)
        if radius is not None:
            check_positive("radius", radius)
        for name, value in (("lower", lower), ("upper", upper)):
            if value is not None and not (is_real(value) and abs(value) <= LARGEST):
                raise ValueError(f"{name} must be a number of at most {LARGEST:g} in size, or None, got {value!r}")
        if lower is not None and upper is not None and lower > upper:
            raise ValueError(f"lower must not be above upper, got lower={lower!r} and upper={upper!r}")
        check_count("batch_size", batch_size)
        self.radius = radius
        self.lower = lower
        self.upper = upper
        self.method = method
        self.beta0 = beta0
        self.batch_size = batch_size
        self._problem = Problem(
            None if radius is None else float(radius),
            -math.inf if lower is None else float(lower),
            math.inf if upper is None else float(upper),
            float(beta0),
            int(batch_size),
        )
        self._ratings = Ratings()
        self._state = _METHODS[method]()
        self._noise = np.random.default_rng(seed)
        self._waiting = 0

    # --- learning ---

    def learn_one(self, user: Hashable, item: Hashable, y: typing.Any, x: dict | None = None) -> None:
        """Store a rating, and take a step when a batch is complete.

        Parameters
        ----------
        user, item
            Any hashable names, new ones too.
        y
            The rating.
        x
            Context, which is not used.

        Raises
        ------
        SampleError
            For a rating that is not finite or outside the box, or a name that is not hashable or not equal to itself;
            the model is then as it was before.
        MemoryError
            Where `method="shcgm"` cannot write out users x items; the model is then as it was before.
        """
        rating = self._checked(user, item, y)
        ratings = self._ratings
        if not (user in ratings.users.positions and item in ratings.items.positions):
            self._make_room((user,), (item,))
        ratings.enter_one(user, item, rating)
        self._waiting += 1
        if self._waiting >= self.batch_size:
            self.advance()

    def learn_arrays(self, users: Iterable[Hashable], items: Iterable[Hashable], y: Iterable) -> None:
        """Learn from many ratings, one after another: what :meth:`learn_one` does in a loop, several times as fast.

        Parameters and errors are those of :meth:`store`.
        """
        users, items, values, problem = self._checked_many(users, items, y)
        self._make_room(users, items)
        start = 0
        while start < values.size:
            stop = min(start + max(self.batch_size - self._waiting, 1), values.size)
            self._ratings.enter(users[start:stop], items[start:stop], values[start:stop])
            self._waiting += stop - start
            start = stop
            if self._waiting >= self.batch_size:
                self.advance()
        if problem:
            raise SampleError(problem)

    def store(self, users: Iterable[Hashable], items: Iterable[Hashable], y: Iterable) -> None:
        """Store many ratings without taking a step: the offline way in, with :meth:`advance`.

        Parameters
        ----------
        users, items
            Names, one of each a rating.
        y
            The ratings, shape (n,).

        Raises
        ------
        SampleError
            At the first rating that cannot be stored: the message names its row; those before it are stored.
        MemoryError
            As in :meth:`learn_one`; none is stored then.
        ValueError
            If lengths differ; none is stored then.
        """
        users, items, values, problem = self._checked_many(users, items, y)
        self._make_room(users, items)
        self._ratings.enter(users, items, values)
        self._waiting += values.size
        if problem:
            raise SampleError(problem)

    def _make_room(self, users: Sequence[Hashable], items: Sequence[Hashable]) -> None:
        self._state.make_room(self._ratings.users.size_with(users), self._ratings.items.size_with(items))

    def _checked_many(
        self, users: Iterable[Hashable], items: Iterable[Hashable], y: Iterable
    ) -> tuple[list, list, NDArray[np.float64], str]:
        """Ratings up to the first that cannot be stored, and what is wrong with that one."""
        users, items, given = list(_names(users)), list(_names(items)), y if isinstance(y, np.ndarray) else list(y)
        if not len(users) == len(items) == len(given):
            raise ValueError(
                f"users, items and y must have the same length, got {len(users)}, {len(items)} and {len(given)}"
            )
        if _plain(users) and _plain(items) and (values := _floats(given)) is not None:
            problem = self._problem
            if ((np.abs(values) <= LARGEST) & (problem.lower <= values) & (values <= problem.upper)).all():
                return users, items, values, ""
        values = np.empty(len(given))
        for k, sample in enumerate(zip(users, items, _names(given), strict=True)):
            try:
                values[k] = self._checked(*sample)
            except SampleError as error:
                return users[:k], items[:k], values[:k], f"row {k}: {error}"
        return users, items, values, ""

    def advance(self, steps: int = 1) -> None:
        """Take so many steps on the ratings that are stored; none where nothing is."""
        check_count("steps", steps)
        for _ in range(steps if self._ratings.count else 0):
            self._state.step(self._ratings, self._problem, self._noise)
            self._waiting = 0

    def _checked(self, user: Hashable, item: Hashable, y: typing.Any) -> float:
        for what, name in (("user", user), ("item", item)):
            try:
                hash(name)
            except TypeError as error:
                raise SampleError(f"the {what} is {name!r}; expected a hashable name") from error
            if name != name:  # noqa: PLR0124 NaN: another name each time
                raise SampleError(f"the {what} is {name!r}; expected a name that is equal to itself")
        problem = self._problem
        if isinstance(y, (numbers.Real, np.bool_)):
            rating: typing.Any = y  # an integer may be too large to become a float
            if abs(rating) <= LARGEST and problem.lower <= rating <= problem.upper:
                return float(rating)
        expected = f"a number from {problem.lower} to {problem.upper}" if problem.has_box else "a finite number"
        raise SampleError(f"the rating of item {item!r} by user {user!r} is {y!r}; expected {expected}")

    def merged(self, others: typing.Iterable[typing.Self]) -> typing.Self:
        r"""Return a model that predicts with what this model and others have learned of parts of one stream.

        Mean and biases are those of all ratings; of a rating that several models hold, the last one's counts. X is

        .. math::

            X = \operatorname{proj}_{\|\cdot\|_* \le \text{radius}} \sum_p D_p X_p,

        where :math:`D_p` weighs the row of each user by the share of its ratings that model p has: rows are averaged,
        and that of a user whom one model alone has learned stays what it is. Where the stream is divided by items
        rather than by users, which the numbers of ratings show, columns are weighed instead. For a pair that a model
        has not met, "shcgm" takes mean and biases.

        The nuclear ball is that of `radius`, or where that is None of what the method would have chosen for all
        ratings: with "hcgm" the root of the sum of the models' squared radii; "hcgm" also cuts off about a hundredth of
        the nuclear norm, to keep few factors. Biases of all ratings and the projection may lead out of the box:
        `infeasibility` measures how far, and predictions are clipped.

        It holds all ratings and may learn on; the models are left as they are. Costs a few passes over the ratings, and
        with "shcgm" a singular value decomposition.

        Parameters
        ----------
        others
            Models with the same radius, box and method.

        Raises
        ------
        ValueError
            When one is of another kind.
        MemoryError
            As in :meth:`learn_one`, for the users and items of all.
        """
        models = [self, *others]
        check_alike(models, "radius", "lower", "upper", "method")
        learned = [model for model in models if model.n_samples]
        if len(learned) == 1:
            return copy.deepcopy(learned[0])
        whole = self.clone()
        places = [whole._ratings.enter_all(model._ratings) for model in learned]
        whole._make_room((), ())
        whole._ratings.arrange_and_fit()
        stepped = [
            (model._state, model._ratings, *place)
            for model, place in zip(learned, places, strict=True)
            if model.n_steps
        ]
        if stepped:
            parts = parts_of(stepped, whole._ratings.shape)
            whole._state.mix(parts, whole._ratings, whole._problem)
        return whole

    # --- predictions ---

    def predict_one(  # type: ignore[override]
        self, user: Hashable, item: Hashable, x: dict | None = None
    ) -> float:
        """Predict a rating; 0, brought into the box, before anything is learned."""
        ratings, state = self._ratings, self._state
        row, col = ratings.users.positions.get(user), ratings.items.positions.get(item)
        known = row is not None and col is not None and state.sees(row, col)
        value = state.value(row, col) if known else 0.0  # type: ignore[arg-type]
        if state.with_biases or not known:
            value += ratings.bias(row, col)
        return min(max(value, self._problem.lower), self._problem.upper)

    def predict_arrays(self, users: Iterable[Hashable], items: Iterable[Hashable]) -> np.ndarray:
        """Predict many ratings: those of :meth:`predict_one`, as an array."""
        ratings, state = self._ratings, self._state
        rows, cols = ratings.users.find(list(_names(users))), ratings.items.find(list(_names(items)))
        if rows.size != cols.size:
            raise ValueError(f"users and items must have the same length, got {rows.size} and {cols.size}")
        # -1, unknown, is the last of the biases, which is nobody's
        of_user, of_item = np.append(ratings.of_user, 0.0), np.append(ratings.of_item, 0.0)
        m, n = state.seen
        known = (rows >= 0) & (rows < m) & (cols >= 0) & (cols < n)
        out = ratings.mean + of_user[rows] + of_item[cols]
        of_state = state.values(rows[known], cols[known])
        out[known] = of_state + out[known] if state.with_biases else of_state
        return np.clip(out, self._problem.lower, self._problem.upper)

    # --- counters and measures ---

    @property
    def n_samples(self) -> int:
        """Ratings stored; one that replaces another is not counted."""
        return self._ratings.count

    @property
    def n_users(self) -> int:
        """Users seen."""
        return len(self._ratings.users)

    @property
    def n_items(self) -> int:
        """Items seen."""
        return len(self._ratings.items)

    @property
    def n_steps(self) -> int:
        """Steps taken."""
        return self._state.steps

    @property
    def n_products(self) -> int:
        """Products of a gradient's Gram matrix with a vector, in all linear minimisations."""
        return self._state.oracle.products

    @property
    def gap(self) -> float:
        """The Frank-Wolfe gap of the last step's smoothed objective, estimated where the gradient is; NaN before it."""
        return self._state.gap

    @property
    def lmo_error(self) -> float:
        """By how much the last linear minimum may be missed, from the residual of its singular vectors.

        A bound once they are nearest to the leading ones; `gap` is too small by no more.
        """
        return self._state.radius * self._state.oracle.error

    @property
    def current_radius(self) -> float:
        """The radius of the last step: the given one, or the one that the method chose; 0.0 before it."""
        return self._state.radius

    @property
    def support_size(self) -> int:
        """The factors of X, whose rank is no larger; with `method="shcgm"` its rank, by its singular values."""
        return self._state.rank_of()

    @property
    def infeasibility(self) -> float:
        """Distance to the box relative to the matrix's norm, both over 10,000 random entries, predictions not clipped.

        Always the same entries; 0.0 before the first step.
        """
        outside, size = self._sampled()
        return outside / size if size > 0.0 else 0.0

    @property
    def violation(self) -> float:
        """Distance of the matrix to the box in the Frobenius norm, estimated from the entries of `infeasibility`."""
        return self._sampled()[0] * math.sqrt(math.prod(self._state.seen) / _SAMPLE)

    def _sampled(self) -> tuple[float, float]:
        """Distance to the box, and norm, of a sample of the matrix's entries."""
        m, n = self._state.seen
        if not m * n:
            return 0.0, 0.0
        rng = np.random.default_rng(0)
        rows, cols = rng.integers(0, m, _SAMPLE, dtype=np.uint32), rng.integers(0, n, _SAMPLE, dtype=np.uint32)
        x = self._state.values(rows, cols)
        if self._state.with_biases:
            x = x + self._ratings.biases(rows, cols)
        return float(np.linalg.norm(self._problem.outside(x))), float(np.linalg.norm(x))

    def _check_loaded(self) -> None:
        fresh = _loaded.rebuilt(self)
        _loaded.like(self, fresh)
        for name in ("_problem", "_ratings", "_state"):
            _loaded.instance(self, name, type(getattr(fresh, name)))
        _loaded.like(self._problem, fresh._problem, *vars(fresh._problem))
        _loaded.claim(self, "_ratings", "_state")
        _loaded.generator(self, "_noise")
        _loaded.count(self, "_waiting")
        ratings, problem = self._ratings, self._problem
        ratings._check_loaded()
        y = ratings.y[: ratings.count]
        is_inside = ((y >= problem.lower) & (y <= problem.upper)).all()
        _loaded.require(ratings, "y", is_inside, f"ratings from {problem.lower} to {problem.upper}")
        self._state.check_loaded(ratings, problem)


def _plain(names: list) -> bool:
    """Whether names are of types whose values are all hashable and equal to themselves."""
    return {type(name) for name in names} <= {int, str, bool, bytes}


def _floats(y: NDArray | list) -> NDArray[np.float64] | None:
    """Ratings as floats where all are plain numbers."""
    if isinstance(y, np.ndarray):
        return y.astype(np.float64) if y.dtype.kind in "fiu" else None
    if not {type(value) for value in y} <= {int, float}:
        return None
    try:
        return np.array(y, dtype=np.float64)
    except OverflowError:
        return None


def _names(column: typing.Any) -> typing.Any:
    """A column as Python's own values: numpy's would print and rank otherwise."""
    return column.tolist() if isinstance(column, np.ndarray) else column
