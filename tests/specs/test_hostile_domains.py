"""Domains that mean harm, or loop by mistake: each is refused or stopped soon, with its file and line."""

import time
from pathlib import Path

import pytest
from castline.engine.world import build
from castline.engine.world.verify import verify
from castline.specs import SpecErrors, check_domain, load_domain

SOON = 10
"""Seconds; a fraction of one on an idle machine."""

DOMAIN = """castline: 1
name: hostile
tools:
  - name: look
    description: Look.
    effect: read
    parameters: {id: {type: string}}
    simulate:
      guards:
        - unless: SELECT 1 FROM things WHERE id = :id
          error: "{ERROR}"
      returns: {RETURNS}
  - name: change
    description: Change.
    effect: write
    parameters: {id: {type: string}}
    simulate:
      effects:
        - {EFFECT}
      text: "{TEXT}"
state:
  things: {key: id, columns: {id: text, n: integer}, {ROWS}}
tasks:
  - id: change
    for_each: {FOR_EACH}
    user: {goal: "Change {{ id }}."}
    reads: [{tool: look, arguments: {id: "{{ id }}"}}]
    actions: [{tool: change, arguments: {id: "{{ id }}"}}]
"""
FINE = {
    "ERROR": "Error: no {{ id }}",
    "RETURNS": "SELECT id FROM things WHERE id = :id",
    "EFFECT": "UPDATE things SET n = n + 1 WHERE id = :id",
    "TEXT": "Changed {{ id }}.",
    "ROWS": "rows: [{id: a, n: 1}]",
    "FOR_EACH": "SELECT id FROM things",
}
LOOP = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r)"


def problems_of(folder: Path, text: str) -> list:
    """Everything that validating and playing a domain reports."""
    path = folder / "domain.yaml"
    path.write_text(text, encoding="utf-8")
    started = time.monotonic()
    report = check_domain(path)
    problems = [*report.problems, *(verify(report.domain) if report.domain else [])]
    assert time.monotonic() - started < SOON
    return problems


def hostile(part: str, value: str) -> str:
    text = DOMAIN
    for name, fine in {**FINE, part: value}.items():
        text = text.replace("{" + name + "}", fine)
    return text


def test_the_domain_without_any_harm_in_it_is_valid(tmp_path):
    assert problems_of(tmp_path, hostile("TEXT", FINE["TEXT"])) == []


@pytest.mark.parametrize(
    ("part", "value", "line", "says"),
    [
        ("RETURNS", f"{LOOP} SELECT count(*) FROM r", 27, "takes too long"),
        ("RETURNS", f"{LOOP} SELECT count(*) FROM r WHERE :id IS NOT NULL", 27, "takes too long"),
        ("EFFECT", f"{LOOP} INSERT INTO things SELECT i, i FROM r", 28, "takes too long"),
        ("FOR_EACH", f"{LOOP} SELECT i AS id FROM r", 25, "takes too long"),
        ("EFFECT", "INSERT INTO others VALUES (1)", 19, "no such table: others"),
        ("EFFECT", "UPDATE sqlite_schema SET sql = ''", 19, "sqlite_master"),
        ("EFFECT", "INSERT INTO calls VALUES (1, 'look', '{}', '', 0)", 19, "calls"),
        ("EFFECT", "ATTACH DATABASE 'other.db' AS other", 19, "not a statement"),
        ("EFFECT", "VACUUM INTO 'copy.db'", 19, "not a statement"),
        ("EFFECT", "PRAGMA writable_schema = 1", 19, "not a statement"),
        ("EFFECT", "DROP TABLE things", 19, "not a statement"),
        ("EFFECT", "DELETE FROM things; DROP TABLE things", 19, "more than one"),
        ("RETURNS", "SELECT * FROM sqlite_schema", 12, "sqlite_master"),
        ("RETURNS", "SELECT * FROM pragma_database_list", 12, "may not change"),
        ("RETURNS", "SELECT load_extension('x.so')", 12, "load_extension"),
        ("RETURNS", "SELECT readfile('/etc/passwd')", 12, "readfile"),
        ("RETURNS", "SELECT length(zeroblob(2000000000))", 27, "too big"),
        ("RETURNS", "SELECT :other", 12, "nothing here is named `:other`"),
        ("RETURNS", "SELECT ?", 12, "without a name"),
        ("FOR_EACH", "SELECT :id AS id", 25, "nothing here is named `:id`"),
        ("ERROR", "{{ id.__class__.__mro__ }}", 11, "not for texts"),
        ("ERROR", "{{ id['__class__'] }}", 11, "not for texts"),
        ("ERROR", "{{ id | attr('__class__') }}", 11, "not for texts"),
        ("TEXT", "{{ cycler.next }}", 20, "nothing here is named `cycler`"),
        ("TEXT", "{% include '/etc/passwd' %}", 20, "an include"),
        ("TEXT", "{% for a in range(1000000000) %}x{% endfor %}", 20, "nothing here is named `range`"),
        ("TEXT", "{{ 'x' * 10000000000 }}", 28, "a product of more than"),
        ("TEXT", "{{ 9 ** 9 ** 9 ** 9 }}", 28, "not for templates"),
        ("ROWS", "generate: SELECT range::TEXT AS id FROM range(1000000000)", 22, "more than 50,000 rows"),
        ("ROWS", "generate: SELECT sum(range)::TEXT AS id FROM range(1000000000000)", 22, "takes longer"),
        ("ROWS", "generate: SELECT content AS id FROM read_text('/etc/passwd')", 22, "disabled"),
        ("ROWS", "generate: SELECT * FROM read_csv('/etc/passwd')", 22, "disabled"),
        ("ROWS", "generate: SELECT * FROM '/etc/passwd.csv'", 22, "disabled"),
        ("ROWS", "generate: COPY (SELECT 1) TO 'x.csv'", 22, "not one query"),
        ("ROWS", "generate: ATTACH 'x.db'", 22, "not one query"),
        ("ROWS", "generate: SELECT random()::TEXT AS id", 22, "another one each time"),
        ("ROWS", "file: ../secret.csv", 22, "outside the domain's folder"),
    ],
)
def test_it_is_stopped_at_its_line(tmp_path, part, value, line, says):
    # quoted, so that YAML takes it as it stands
    quoted = value if part in ("ERROR", "TEXT") else "'" + value.replace("'", "''") + "'"
    if part == "ROWS":
        key, _, rest = value.partition(": ")
        quoted = f"{key}: '" + rest.replace("'", "''") + "'"
    problems = problems_of(tmp_path, hostile(part, quoted))
    found = [problem for problem in problems if says in problem.message]
    assert found, [problem.render() for problem in problems]
    assert found[0].severity == "error"
    assert (Path(found[0].file), found[0].line) == (tmp_path / "domain.yaml", line)
    assert not list(tmp_path.glob("*.db")) and not list(tmp_path.glob("*.csv"))


def test_whoever_builds_the_world_is_told_the_line_too(tmp_path):
    path = tmp_path / "domain.yaml"
    path.write_text(hostile("ROWS", "generate: SELECT * FROM nothing"), encoding="utf-8")
    with pytest.raises(SpecErrors) as raised:
        build(load_domain(path))
    assert str(raised.value).startswith(f"{path}:22:")


def test_an_alias_inside_itself_is_refused(tmp_path):
    problems = problems_of(tmp_path, "castline: 1\nname: x\ntools: &t\n  - *t\n")
    assert any("stands inside the value it refers to" in p.message and p.line == 4 for p in problems)


def test_aliases_of_aliases_do_not_unfold(tmp_path):
    text = "castline: 1\nname: x\ntools: []\ndescription: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for level in range(1, 12):
        text += f"k{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * 10) + "]\n"
    problems = problems_of(tmp_path, text)
    assert any("aliases expand to more than" in p.message and p.line == 8 for p in problems)
