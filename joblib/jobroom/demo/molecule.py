"""A molecule as plain tuples: reading and writing XYZ, finding bonds, turning it in space."""

from __future__ import annotations

import math
from collections import Counter
from importlib import resources
from typing import NamedTuple

from jobroom.demo.vectors import Vector, rotate

COVALENT_RADII = {"H": 0.31, "C": 0.76, "N": 0.71, "O": 0.66}
"""Angstrom (Cordero and others, 2008): the elements that the demo knows."""

BOND_SLACK = 1.25
"""Two atoms are bonded when closer than the sum of their radii times this."""


class MoleculeError(ValueError):
    """A molecule file that does not say what it must; the message names the line."""


class Molecule(NamedTuple):
    """Element symbols and positions in angstrom, in the order of the file."""

    comment: str
    symbols: tuple[str, ...]
    positions: tuple[Vector, ...]

    @property
    def formula(self) -> str:
        """Hill order: carbon, hydrogen, then the others by name.

        >>> caffeine().formula
        'C8H10N4O2'
        """
        counts = Counter(self.symbols)
        first = [symbol for symbol in ("C", "H") if symbol in counts and "C" in counts]
        order = first + sorted(set(counts) - set(first))
        return "".join(
            f"{symbol}{counts[symbol] if counts[symbol] > 1 else ''}" for symbol in order
        )

    def distance(self, one: int, other: int) -> float:
        """Angstrom between two atoms, by index from 0."""
        return math.dist(self.positions[one], self.positions[other])


def caffeine() -> Molecule:
    """Return the molecule that ships with the package."""
    return read_xyz(resources.files(__package__).joinpath("caffeine.xyz").read_text("utf-8"))


def read_xyz(text: str) -> Molecule:
    """Read one XYZ document: the number of atoms, a comment line, one line per atom."""
    lines = text.splitlines()
    count = _read_count(lines)
    if len(lines) < count + 2:
        raise MoleculeError(
            f"line 1 says {count}, but lines for {max(len(lines) - 2, 0)} atoms follow"
        )
    atoms = [_read_atom(number, line) for number, line in enumerate(lines[2 : count + 2], start=3)]
    if any(line.strip() for line in lines[count + 2 :]):
        raise MoleculeError(
            f"line {count + 3} comes after the last of the atoms that line 1 counts"
        )
    symbols, positions = zip(*atoms, strict=True)
    return Molecule(lines[1].strip(), symbols, positions)


def _read_count(lines: list[str]) -> int:
    first = lines[0].strip() if lines else ""
    if not (first.isascii() and first.isdigit() and int(first) > 0):
        raise MoleculeError("line 1 must be the number of atoms")
    return int(first)


def _read_atom(number: int, line: str) -> tuple[str, Vector]:
    words = line.split()
    try:
        symbol, x, y, z = words[0], float(words[1]), float(words[2]), float(words[3])
    except (IndexError, ValueError) as error:
        raise MoleculeError(f"line {number} must be an element and three numbers") from error
    if symbol not in COVALENT_RADII:
        known = ", ".join(COVALENT_RADII)
        raise MoleculeError(f"line {number} names the element {symbol}; known are {known}")
    if not all(map(math.isfinite, (x, y, z))):
        raise MoleculeError(f"line {number} holds a number that is not finite")
    return symbol, (x, y, z)


def write_xyz(molecule: Molecule) -> str:
    """Write the XYZ document that ``read_xyz`` reads, with four digits of an angstrom."""
    head = [str(len(molecule.symbols)), molecule.comment]
    atoms = zip(molecule.symbols, molecule.positions, strict=True)
    body = [f"{symbol:<2}{x:10.4f}{y:10.4f}{z:10.4f}" for symbol, (x, y, z) in atoms]
    return "\n".join([*head, *body]) + "\n"


def find_bonds(molecule: Molecule) -> list[tuple[int, int]]:
    """Return the bonded pairs of atoms, smaller index first, judged by distance."""
    radii = [COVALENT_RADII[symbol] for symbol in molecule.symbols]
    return [
        (one, other)
        for one in range(len(radii))
        for other in range(one + 1, len(radii))
        if molecule.distance(one, other) < BOND_SLACK * (radii[one] + radii[other])
    ]


def centre(molecule: Molecule) -> Vector:
    """Return the mean position of the atoms."""
    count = len(molecule.positions)
    x, y, z = (sum(axis) / count for axis in zip(*molecule.positions, strict=True))
    return x, y, z


def turn(molecule: Molecule, *, degrees: float, axis: Vector) -> Molecule:
    """Turn the whole molecule about an axis through its centre; no distance changes."""
    turned = rotate(molecule.positions, about=centre(molecule), axis=axis, degrees=degrees)
    return molecule._replace(positions=tuple(turned))


def shift(molecule: Molecule, by: Vector) -> Molecule:
    """Move the whole molecule."""
    moved = ((x + by[0], y + by[1], z + by[2]) for x, y, z in molecule.positions)
    return molecule._replace(positions=tuple(moved))
