"""The tasks of the demo, and the check of what comes back."""

from __future__ import annotations

import pytest

from jobroom.demo import molecule, scans, torsion
from jobroom.demo.scans import STEPS, Scan


def curve_of(scan: Scan) -> torsion.Curve:
    turned = molecule.turn(molecule.caffeine(), degrees=scan.turn, axis=scans.TURN_AXIS)
    model = torsion.Model(turned, radius_scale=scan.radius_scale)
    return torsion.as_curve(list(torsion.scan(model, scan.methyl, steps=STEPS)))


def test_twenty_scans_are_twenty_different_questions() -> None:
    planned = scans.plan_scans(20)
    assert len({(scan.methyl, scan.radius_scale) for scan in planned}) == 20
    assert len({scan.turn for scan in planned}) == 20
    assert [scan.number for scan in planned] == list(range(1, 21))


def test_every_methyl_group_of_the_plan_is_one_of_the_molecule() -> None:
    assert set(scans.METHYLS) == set(torsion.find_methyls(molecule.caffeine()))


def test_a_right_curve_has_no_fault_however_the_molecule_lay() -> None:
    scan = scans.plan_scans(9)[8]
    assert scan.turn != 0
    assert scans.find_fault(scan, curve_of(scan)) is None


def test_a_curve_of_another_size_of_atoms_is_found_out() -> None:
    one, other = scans.plan_scans(6)[2], scans.plan_scans(6)[5]
    assert (one.methyl, other.methyl) == ("N7", "N7")
    assert "barrier" in str(scans.find_fault(one, curve_of(other)))


def test_a_curve_without_the_threefold_symmetry_is_found_out() -> None:
    energies = (5.0, *[0.0] * (STEPS - 1))
    curve = torsion.Curve(tuple(range(0, 360, 10)), energies)
    fault = scans.find_fault(scans.plan_scans(1)[0], curve)
    assert fault == "is not the same after a third of a turn"


def test_a_result_reads_back_as_the_curve_it_was() -> None:
    numbers = [float(number) for number in range(STEPS)]
    curve = scans.read_curve({"angles": numbers, "energies": numbers, "more": 1})
    assert curve == torsion.Curve(tuple(numbers), tuple(numbers))


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (None, "holds no angles and energies"),
        ({"angles": 1, "energies": 2}, "holds no angles and energies"),
        ({"angles": [1], "energies": [2]}, "does not hold 36 angles"),
        ({"angles": [1.0] * 36, "energies": ["x"] * 36}, "no number"),
        ({"angles": [1.0] * 36, "energies": [float("nan")] * 36}, "no number"),
    ],
)
def test_a_result_that_is_no_curve_is_refused(result: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        scans.read_curve(result)
