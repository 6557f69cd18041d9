"""Values and errors of products."""

import math

import numpy as np
import pytest

from fwonline import sets


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "parts must be a list of one or more sets"),
        (None, "parts must be a list"),
        (sets.L1Ball(1.0), "parts must be a list"),
        ([sets.L1Ball(1.0)], r"parts\[0\]: L1Ball\(radius=1.0\) lives in every dimension"),
        ([(sets.L1Ball(1.0), 2), 3], r"parts\[1\] must be a set or \(set, shape\), got 3"),
        ([(sets.L1Ball(1.0), 0)], r"parts\[0\]: shape must be one or more positive integers"),
        ([(sets.L1Ball(1.0), None)], r"parts\[0\]: .* lives in every dimension"),
        ([(sets.L1Ball(1.0), 1.5)], r"parts\[0\]: "),
        ([(sets.Box([0.0], [1.0]), 2)], r"parts\[0\]: .*shape \(2,\)"),
        ([(sets.Birkhoff(), 4)], r"parts\[0\]: .*square"),
    ],
)
def test_bad_parts_are_named(parts, message):
    with pytest.raises(ValueError, match=f"Product: {message}"):
        sets.Product(parts)


def test_a_product_is_its_parts_side_by_side():
    product = sets.Product([(sets.Birkhoff(), (2, 2)), (sets.UnitSimplex(2.0), 3), sets.Box([5.0], [6.0])])
    assert product.shape == (8,)
    atom = product.lmo([0.0, -1.0, -1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(atom.to_dense(), [0, 1, 1, 0, 0, 0, 0, 5])
    assert atom.nnz == 3
    np.testing.assert_array_equal(product.initial_point(8), [0.5] * 4 + [0.0] * 3 + [5.0])
    assert product.violation([1, 0, 0, 1, 2, 3, 0, 2]) == pytest.approx(math.hypot(3 / math.sqrt(2), 3))
    assert product.diameter() == pytest.approx(math.sqrt(4 + 8 + 1))
    assert not product.can_project
    with pytest.raises(NotImplementedError, match="no cheap projection"):
        product.project(np.zeros(8))


def test_atoms_are_added_to_strided_vectors_in_place():
    product = sets.Product([(sets.Spectraplex(), (2, 2)), (sets.L1Ball(2.0), 2)])
    atom = product.lmo([1.0, 0.0, 0.0, -1.0, 3.0, 0.0])
    out = np.zeros(12)
    atom.add_to(out[::2], 2.0)
    np.testing.assert_array_equal(out[::2], [0, 0, 0, 2, -4, 0])
    assert not out[1::2].any()


def test_products_of_products():
    inner = sets.Product([(sets.L1Ball(1.0), 2)])
    outer = sets.Product((inner, (sets.LInfBall(1.0), 1)))
    np.testing.assert_array_equal(outer.lmo([0.0, 2.0, 1.0]).to_dense(), [0.0, -1.0, -1.0])
    assert outer.clone() == outer
    assert outer == sets.Product([inner, (sets.LInfBall(1.0), 1)])
