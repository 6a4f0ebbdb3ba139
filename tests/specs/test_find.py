"""Where a domain comes from: a path, ./domains, or castline itself."""

from pathlib import Path

import pytest
from castline.specs import UserError, domain_origin, find_domain, known_domains, load_domain


def domain(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "domain.yaml").write_text(f"castline: 1\nname: {folder.name}\ntools: []\n", encoding="utf-8")
    return folder


def test_an_explicit_path_comes_first_then_the_folder_here_then_the_packaged_copy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packaged = find_domain("library")
    assert domain_origin("library") == "packaged"
    assert packaged == known_domains()["library"]
    domain(tmp_path / "domains" / "library")
    assert (find_domain("library"), domain_origin("library")) == (Path("domains/library"), "./domains")
    domain(tmp_path / "library")
    assert (find_domain("library"), domain_origin("library")) == (Path("library"), "path")
    assert find_domain("library/domain.yaml") == Path("library/domain.yaml")


def test_a_folder_that_only_shares_the_name_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "library").mkdir()
    assert domain_origin("library") == "packaged"


def test_domains_here_can_be_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    domain(tmp_path / "domains" / "bakery")
    (tmp_path / "domains" / "notes").mkdir()
    assert {"bakery", "library"} <= set(known_domains())
    assert "notes" not in known_domains()
    assert load_domain(find_domain("bakery")).name == "bakery"


@pytest.mark.parametrize("name", ["librray", "./librray", "domains/librray"])
def test_a_misspelt_name_gets_the_near_one(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as raised:
        find_domain(name)
    assert raised.value.hint == "did you mean `library`?"


def test_a_name_near_nothing_gets_the_list(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as raised:
        find_domain("zzz")
    assert "library" in str(raised.value.hint)


def test_a_folder_without_yaml_says_what_a_domain_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"no \*\.yaml"):
        find_domain("empty")
