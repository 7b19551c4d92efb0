"""Points and directions in space as tuples of three numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable

Vector = tuple[float, float, float]


def minus(a: Vector, b: Vector) -> Vector:
    """Return ``a - b``."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def plus(start: Vector, a: Vector, by_a: float, b: Vector, by_b: float) -> Vector:
    """Return a point so far along two directions from a start."""
    x, y, z = (s + by_a * p + by_b * q for s, p, q in zip(start, a, b, strict=True))
    return x, y, z


def dot(a: Vector, b: Vector) -> float:
    """Return the scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> Vector:
    """Return the vector product."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def unit(a: Vector) -> Vector:
    """Return the vector of length one with this direction."""
    length = math.hypot(*a)
    return a[0] / length, a[1] / length, a[2] / length


def rotate(
    points: Iterable[Vector], *, about: Vector, axis: Vector, degrees: float
) -> list[Vector]:
    """Rotate points about the line through ``about`` along ``axis`` (right-handed)."""
    matrix = _rotation_matrix(axis, degrees)
    return [_rotate_point(matrix, point, about) for point in points]


def _rotate_point(matrix: tuple[Vector, Vector, Vector], point: Vector, about: Vector) -> Vector:
    x, y, z = point[0] - about[0], point[1] - about[1], point[2] - about[2]
    (a, b, c), (d, e, f), (g, h, i) = matrix
    return (
        about[0] + a * x + b * y + c * z,
        about[1] + d * x + e * y + f * z,
        about[2] + g * x + h * y + i * z,
    )


def _rotation_matrix(axis: Vector, degrees: float) -> tuple[Vector, Vector, Vector]:
    length = math.hypot(*axis)
    if not length:
        raise ValueError("an axis of rotation must not be of length zero")
    x, y, z = (part / length for part in axis)
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    rest = 1 - cos
    return (
        (cos + x * x * rest, x * y * rest - z * sin, x * z * rest + y * sin),
        (y * x * rest + z * sin, cos + y * y * rest, y * z * rest - x * sin),
        (z * x * rest - y * sin, z * y * rest + x * sin, cos + z * z * rest),
    )
