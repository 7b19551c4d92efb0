"""The science of the demo: how much energy it takes to turn a methyl group about its bond.

A relaxed scan. One group is held at each angle in turn; it may bend aside, and the other methyl
groups may bend and turn, until the energy is lowest. What is left is the strain of that angle.
The energy is the van der Waals term of the Universal Force Field (Rappé and others, 1992) between
atoms three bonds apart or more, and a spring on each bend. Energies are in kJ/mol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from jobroom.demo.molecule import Molecule, MoleculeError, find_bonds
from jobroom.demo.vectors import Vector, cross, dot, minus, plus, rotate, unit

CONTACT = {"H": (2.886, 0.044), "C": (3.851, 0.105), "N": (3.660, 0.069), "O": (3.500, 0.060)}
"""UFF: the distance of lowest energy in angstrom, and its depth in kcal/mol."""

KJ_PER_KCAL = 4.184
BEND_STIFFNESS = 535.0
"""kJ/mol/rad²: the two C-N-C angles beside a methyl group, about 64 kcal/mol/rad² each."""

SYMMETRY = 120.0
"""A methyl group looks the same again after a third of a turn."""

WIDEST_BEND = 0.2
SWEEPS = 2
GRID = 10
GOLDEN = (math.sqrt(5) - 1) / 2
GOLDEN_STEPS = 16


class Methyl(NamedTuple):
    """A CH3 group on a ring, atoms by index; ``beside`` are the anchor's two ring neighbours."""

    name: str
    anchor: int
    carbon: int
    hydrogens: tuple[int, ...]
    beside: tuple[int, int]


class Frame(NamedTuple):
    """How a methyl group can move: from ``angle`` about ``axis``, and bending on ``hinge``."""

    angle: float
    axis: Vector
    hinge: Vector


class Contact(NamedTuple):
    """Two atoms that feel each other: ``reach`` is the squared distance of lowest energy."""

    one: int
    other: int
    reach: float
    depth: float


class Curve(NamedTuple):
    """The outcome of a scan: the strain at each angle, the lowest being zero."""

    angles: tuple[float, ...]
    energies: tuple[float, ...]

    @property
    def barrier(self) -> float:
        """What it takes to turn the group all the way round, in kJ/mol."""
        return max(self.energies) - min(self.energies)

    @property
    def lowest_angle(self) -> float:
        """The angle of lowest energy within the first third of a turn, in degrees."""
        third = [
            pair for pair in zip(self.energies, self.angles, strict=True) if pair[1] < SYMMETRY
        ]
        return min(third)[1]


def find_methyls(molecule: Molecule) -> dict[str, Methyl]:
    """Find the methyl groups on a ring, named after the ring atom that holds them, as ``N7``."""
    near = _neighbours(molecule)
    found = (_as_methyl(molecule, near, atom) for atom in range(len(near)))
    return {methyl.name: methyl for methyl in found if methyl}


def _neighbours(molecule: Molecule) -> list[list[int]]:
    near: list[list[int]] = [[] for _ in molecule.symbols]
    for one, other in find_bonds(molecule):
        near[one].append(other)
        near[other].append(one)
    return near


def _as_methyl(molecule: Molecule, near: list[list[int]], carbon: int) -> Methyl | None:
    hydrogens = tuple(atom for atom in near[carbon] if molecule.symbols[atom] == "H")
    if molecule.symbols[carbon] != "C" or len(hydrogens) != 3:  # noqa: PLR2004 - CH3
        return None
    (anchor,) = set(near[carbon]) - set(hydrogens)
    first, second = sorted(atom for atom in near[anchor] if atom != carbon)
    name = f"{molecule.symbols[anchor]}{anchor + 1}"
    return Methyl(name, anchor, carbon, hydrogens, (first, second))


def find_contacts(molecule: Molecule, *, radius_scale: float = 1.0) -> list[Contact]:
    """List the pairs of atoms three bonds apart or more, with their UFF numbers."""
    near = [set(atoms) for atoms in _neighbours(molecule)]
    numbers = [CONTACT[symbol] for symbol in molecule.symbols]
    return [
        Contact(one, other, radius_scale**2 * xi * xj, KJ_PER_KCAL * math.sqrt(di * dj))
        for one, (xi, di) in enumerate(numbers)
        for other, (xj, dj) in enumerate(numbers)
        if one < other and other not in near[one] and not near[one] & near[other]
    ]


def contact_energy(positions: Sequence[Vector], contacts: Sequence[Contact]) -> float:
    """Add up the van der Waals energy of these pairs."""
    total = 0.0
    for one, other, reach, depth in contacts:
        ax, ay, az = positions[one]
        bx, by, bz = positions[other]
        ratio = reach / ((ax - bx) ** 2 + (ay - by) ** 2 + (az - bz) ** 2)
        sixth = ratio * ratio * ratio
        total += depth * sixth * (sixth - 2.0)
    return total


def dihedral(positions: Sequence[Vector], methyl: Methyl) -> float:
    """Return the angle H-C-N-C in degrees: 0 where the first hydrogen eclipses the ring bond."""
    ring, anchor, carbon, hydrogen = (
        positions[atom]
        for atom in (methyl.beside[0], methyl.anchor, methyl.carbon, methyl.hydrogens[0])
    )
    axis = minus(carbon, anchor)
    back, front = minus(ring, anchor), minus(hydrogen, carbon)
    normal, other = cross(axis, back), cross(axis, front)
    sine = dot(cross(normal, other), axis) / math.hypot(*axis)
    return math.degrees(math.atan2(sine, dot(normal, other)))


class Model:
    """A molecule whose methyl groups can turn and bend; everything else stays where it is."""

    def __init__(self, molecule: Molecule, *, radius_scale: float = 1.0) -> None:
        self.methyls = find_methyls(molecule)
        self._rest = _even_methyls(molecule, self.methyls.values())
        self._frames = {name: _frame_of(group, self._rest) for name, group in self.methyls.items()}
        self._contacts = find_contacts(molecule, radius_scale=radius_scale)
        self._felt = {name: self._contacts_of(methyl) for name, methyl in self.methyls.items()}
        self.reset()

    def _contacts_of(self, methyl: Methyl) -> list[Contact]:
        own = {methyl.carbon, *methyl.hydrogens}
        return [pair for pair in self._contacts if (pair.one in own) != (pair.other in own)]

    def reset(self) -> None:
        """Put every group back to where the molecule has it."""
        self.positions = list(self._rest)
        self.angles = {name: frame.angle for name, frame in self._frames.items()}
        self.bends = dict.fromkeys(self.methyls, 0.0)

    def place(self, name: str, *, angle: float, bend: float) -> None:
        """Set one group to a dihedral (degrees) and an in-plane bend (radians)."""
        group, rest, frame = self.methyls[name], self._rest, self._frames[name]
        carbon = rest[group.carbon]
        hydrogens = rotate(
            [rest[atom] for atom in group.hydrogens],
            about=carbon,
            axis=frame.axis,
            degrees=angle - frame.angle,
        )
        bent = rotate(
            [carbon, *hydrogens],
            about=rest[group.anchor],
            axis=frame.hinge,
            degrees=math.degrees(bend),
        )
        for atom, point in zip((group.carbon, *group.hydrogens), bent, strict=True):
            self.positions[atom] = point
        self.angles[name], self.bends[name] = angle, bend

    def energy(self) -> float:
        """Return the energy of the whole molecule as it stands."""
        springs = sum(BEND_STIFFNESS * bend * bend for bend in self.bends.values())
        return contact_energy(self.positions, self._contacts) + springs

    def relax(self, held: str) -> None:
        """Let every group bend, and all but the held one turn, to where the energy is lowest."""
        for _ in range(SWEEPS):
            for name in self.methyls:
                self._relax_bend(name)
                if name != held:
                    self._relax_angle(name)

    def _relax_bend(self, name: str) -> None:
        angle = self.angles[name]

        def strain(bend: float) -> float:
            self.place(name, angle=angle, bend=bend)
            return contact_energy(self.positions, self._felt[name]) + BEND_STIFFNESS * bend * bend

        strain(_lowest(strain, -WIDEST_BEND, WIDEST_BEND))

    def _relax_angle(self, name: str) -> None:
        bend = self.bends[name]

        def strain(angle: float) -> float:
            self.place(name, angle=angle, bend=bend)
            return contact_energy(self.positions, self._felt[name])

        width = SYMMETRY / GRID
        near = min((step * width for step in range(GRID)), key=strain)
        strain(_lowest(strain, near - width, near + width))


def scan(model: Model, name: str, *, steps: int) -> Iterator[tuple[float, float]]:
    """Yield (angle, relaxed energy) for one full turn of a group, one step at a time."""
    for step in range(steps):
        angle = 360.0 * step / steps
        yield angle, relaxed_energy(model, name, angle)


def relaxed_energy(model: Model, name: str, angle: float) -> float:
    """Hold one group at an angle, let the rest relax, and return the energy."""
    if name not in model.methyls:
        raise MoleculeError(
            f"there is no methyl group {name}; there are {', '.join(model.methyls)}"
        )
    model.reset()
    model.place(name, angle=angle, bend=0.0)
    model.relax(held=name)
    return model.energy()


def as_curve(points: list[tuple[float, float]]) -> Curve:
    """Turn scanned points into a curve whose lowest energy is zero."""
    lowest = min(energy for _, energy in points)
    angles, energies = zip(*points, strict=True)
    return Curve(angles, tuple(round(energy - lowest, 6) for energy in energies))


def _even_methyls(molecule: Molecule, methyls: Iterable[Methyl]) -> tuple[Vector, ...]:
    """Make each methyl group exactly threefold: its mean hydrogen, three times around."""
    positions = list(molecule.positions)
    for group in methyls:
        carbon = positions[group.carbon]
        axis = unit(minus(carbon, positions[group.anchor]))
        arms = [minus(positions[atom], carbon) for atom in group.hydrogens]
        height = sum(dot(arm, axis) for arm in arms) / 3
        radius = sum(math.hypot(*cross(axis, arm)) for arm in arms) / 3
        outward = unit(cross(cross(axis, arms[0]), axis))
        first = plus(carbon, axis, height, outward, radius)
        for turn, atom in enumerate(group.hydrogens):
            (point,) = rotate([first], about=carbon, axis=axis, degrees=turn * SYMMETRY)
            positions[atom] = point
    return tuple(positions)


def _frame_of(group: Methyl, positions: Sequence[Vector]) -> Frame:
    anchor = positions[group.anchor]
    one, other = (minus(positions[atom], anchor) for atom in group.beside)
    axis = minus(positions[group.carbon], anchor)
    return Frame(dihedral(positions, group), axis, cross(one, other))


def _lowest(function: Callable[[float], float], low: float, high: float) -> float:
    """Find the place of a minimum between two bounds by golden section."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(GOLDEN_STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = function(right)
    return (low + high) / 2
