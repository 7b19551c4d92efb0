"""A password that is not written as a URL wants it: no part of it is taken for anything else."""

from __future__ import annotations

import pytest

from jobroom.errors import ConfigurationError
from jobroom.store import postgres_login


@pytest.mark.parametrize(
    "password", ["p@hush", "p@hush#x", "p@hush:x@y", "p/hush", "p@/hush", "@hush"]
)
def test_a_password_that_tears_the_url_is_refused_and_not_repeated(password):
    """Rules, errors: no secret in a message; what is behind its @ was called the host."""
    with pytest.raises(ConfigurationError, match="in a password as %2F %40") as caught:
        postgres_login.parameters_of(f"postgresql://u:{password}@host/db")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("postgresql://u:p%40x@host/db", "host:5432/db"),
        ("postgresql://u:p@[::1]:6/db", "[::1]:6/db"),
        ("postgresql:///db?host=/var/run/postgresql", "/var/run/postgresql:5432/db"),
        ("postgresql:///db?host=@abstract", "@abstract:5432/db"),
    ],
)
def test_what_is_well_written_is_taken(url, location):
    assert postgres_login.location_of(postgres_login.parameters_of(url)) == location
