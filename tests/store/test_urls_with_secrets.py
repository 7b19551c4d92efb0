"""A URL of a database is read, or refused by one sentence; what may be a secret is never shown."""

from __future__ import annotations

import pytest

from jobroom.errors import ConfigurationError
from jobroom.settings import JobLibSettings
from jobroom.store import dialect

UNREADABLE = [
    "postgresql://user:p@ss:S3CRET@127.0.0.1:5432/queue",
    "postgresql://user:S3CRET/foo@127.0.0.1:5432/queue",
    "postgresql://user:S3CRET%zz@127.0.0.1/queue",
    "http://user:p@ss:S3CRET@127.0.0.1/x",
    "http://user:1234/S3CRET@127.0.0.1/x",
    "libsql://127.0.0.1/S3CRET@host",
    "mysql://user:S3CRET@127.0.0.1/queue",
    "S3CRET",
]


@pytest.mark.parametrize("url", UNREADABLE)
def test_an_unreadable_url_is_refused_by_one_sentence_without_its_secret(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        dialect.open_database(JobLibSettings(database_url=url))
    message = str(caught.value)
    assert "S3CRET" not in message
    assert "\n" not in message
    assert "ZNDRAW_JOBLIB_DATABASE_URL" in message


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("postgresql://user:S3CRET@127.0.0.1:5433/queue", "127.0.0.1:5433/queue"),
        ("POSTGRES://user:S3C%2FRET@db/queue", "db:5432/queue"),
        ("postgresql://user:S3CRET@one:5432,two:5433/queue", "one,two:5432,5433/queue"),
        ("libsql://127.0.0.1:1?tls=0&authToken=S3CRET", "libsql://127.0.0.1:1"),
        ("HTTP://127.0.0.1:1", "http://127.0.0.1:1"),
    ],
)
def test_the_location_that_is_shown_holds_no_secret(url: str, location: str) -> None:
    opened = dialect.open_database(JobLibSettings(database_url=url))
    assert opened.location == location
    opened.close()


def test_the_scheme_of_a_url_may_be_in_capitals() -> None:
    """RFC 3986, section 3.1."""
    assert dialect.kind_of("SQLITE:///queue.db") == "sqlite"
