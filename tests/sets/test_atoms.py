"""What is particular to each kind of atom; what all share is tried on every set's atoms."""

import numpy as np
import pytest

from fwonline.sets import CoordinateAtom, DenseAtom, ZeroAtom


def test_a_coordinate_costs_one_entry():
    atom = CoordinateAtom(2, -3.0, (4,))
    assert atom.nnz == 1
    assert atom.dot(np.array([1.0, 2.0, 4.0, 8.0])) == -12.0
    assert repr(atom) == "CoordinateAtom(index=2, value=-3.0, shape=(4,))"


def test_a_coordinate_of_a_matrix_counts_in_c_order_whatever_the_layout():
    atom = CoordinateAtom(1, 5.0, (2, 3))
    for order in "CF":
        out = np.zeros((2, 3), order=order)
        atom.add_to(out, 2.0)
        assert out[0, 1] == 10.0
        assert np.count_nonzero(out) == 1
        assert atom.dot(out) == 50.0


def test_a_dense_atom_cannot_be_written_to():
    atom = DenseAtom(np.array([1.0, -0.0]))
    with pytest.raises(ValueError, match="read-only"):
        atom.values[0] = 2.0
    assert atom == DenseAtom(np.array([1.0, 0.0]))
    assert hash(atom) == hash(DenseAtom(np.array([1.0, 0.0])))
    dense = atom.to_dense()
    dense[0] = 7.0
    assert atom.values[0] == 1.0


def test_atoms_are_keys():
    weights = {CoordinateAtom(0, 1.0, (3,)): 0.25, ZeroAtom((3,)): 0.75}
    weights[CoordinateAtom(0, 1.0, (3,))] += 0.25
    assert len(weights) == 2
    assert CoordinateAtom(0, 1.0, (3,)) != CoordinateAtom(0, -1.0, (3,))
    assert CoordinateAtom(0, 1.0, (3,)) != CoordinateAtom(0, 1.0, (4,))
    assert ZeroAtom((3,)) != DenseAtom(np.zeros(3))
