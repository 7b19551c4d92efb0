"""Settings from files: where docker, podman and Kubernetes put secrets."""

from __future__ import annotations

import pytest

from jobroom import settings as settings_module
from jobroom.settings import JobLibSettings, read_settings


@pytest.fixture
def secrets(tmp_path, monkeypatch):
    """The folder in which an engine puts secrets."""
    monkeypatch.setattr(settings_module, "SECRETS", tmp_path)
    return tmp_path


@pytest.mark.parametrize("spelled", [str.lower, str.upper])
def test_a_secret_may_be_a_file(secrets, spelled):
    """So that it is in no variable, which ``docker inspect`` shows."""
    (secrets / spelled("zndraw_joblib_jwt_secret")).write_text("of a file, and long enough\n")
    (secrets / spelled("zndraw_joblib_database_url")).write_text("sqlite:///file.db")
    found = read_settings()
    assert found.jwt_secret.get_secret_value() == "of a file, and long enough"
    assert found.database_url == "sqlite:///file.db"


def test_a_variable_goes_before_a_file(secrets, monkeypatch):
    (secrets / "zndraw_joblib_database_url").write_text("sqlite:///file.db")
    monkeypatch.setenv("ZNDRAW_JOBLIB_DATABASE_URL", "sqlite:///variable.db")
    assert read_settings().database_url == "sqlite:///variable.db"


def test_a_secret_that_cannot_be_read_is_told_in_one_sentence(secrets):
    (secrets / "zndraw_joblib_jwt_secret").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"^A file in \S+ cannot be read: .*\.$"):
        read_settings()


def test_without_a_folder_of_secrets_there_is_no_word_of_it(secrets, monkeypatch):
    monkeypatch.setattr(settings_module, "SECRETS", secrets / "none")
    assert read_settings() == JobLibSettings()


def test_an_empty_file_says_as_little_as_an_empty_variable(secrets):
    for name in ("jwt_issuer", "database_url", "max_body_bytes"):
        (secrets / f"zndraw_joblib_{name}").write_text("\n")
    found = read_settings()
    assert found.jwt_issuer is None
    assert (found.database_url, found.max_body_bytes) == ("sqlite:///jobroom.db", 1024 * 1024)
    assert found.model_fields_set == set()


def test_a_file_whose_name_is_no_setting_is_logged_as_a_variable_would_be(secrets, caplog):
    (secrets / "zndraw_joblib_jwt_secrt").write_text("hush")
    read_settings()
    assert "name=zndraw_joblib_jwt_secrt known=ZNDRAW_JOBLIB_JWT_SECRET" in caplog.text
    assert "hush" not in caplog.text
