"""A domain from one file or many, and what it answers."""

import textwrap
from pathlib import Path

import pytest
from castline.specs import (
    BUILT_IN_ERROR_KINDS,
    Clause,
    Domain,
    ErrorKind,
    Redaction,
    Role,
    SpecErrors,
    Tool,
    UserError,
    check_domain,
    load_domain,
    pointer_segments,
)

TOOLS = """
    tools:
      - name: get_loan
        description: Show a loan.
        effect: read
        parameters:
          loan_id: {type: string, maxLength: 5}
      - name: renew_loan
        description: Extend a loan.
        effect: write
        parameters:
          type: object
          properties: {loan_id: {type: string}, days: {type: integer}}
          required: [loan_id]
"""
POLICIES = """
    policies:
      - {id: always, text: Be polite.}
      - {id: replies, text: Be short., tools: [reply]}
      - {id: changes, text: Ask first., effects: [write, irreversible]}
      - {id: both, text: Look first., tools: [get_loan, reply], effects: [write]}
      - {id: loans, text: Check the id., tools: [get_loan]}
"""
HEAD = """
    castline: 1
    name: library
"""


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(
            "".join(textwrap.dedent(part) for part in text.split("\0")), encoding="utf-8"
        )
    return folder


def library(tmp_path: Path) -> Domain:
    return load_domain(write(tmp_path / "library", domain=f"{HEAD}\0{TOOLS}\0{POLICIES}"))


def only_problem(path: Path):
    (problem,) = check_domain(path).problems
    return problem


def test_clauses_govern_by_tool_by_effect_and_replies_by_name(tmp_path):
    domain = library(tmp_path)

    def ids(tool):
        return [clause.id for clause in domain.clauses_for(tool)]

    assert ids("get_loan") == ["always", "both", "loans"]
    assert ids("renew_loan") == ["always", "changes", "both"]
    assert ids(None) == ["always", "replies", "both"]
    assert ids("no_such_tool") == ["always"]


def test_parameters_are_always_a_complete_closed_schema(tmp_path):
    domain = library(tmp_path)
    get_loan, renew_loan = domain.tools
    assert get_loan.parameters == {
        "type": "object",
        "properties": {"loan_id": {"type": "string", "maxLength": 5}},
        "required": ["loan_id"],
        "additionalProperties": False,
    }
    assert renew_loan.parameters["required"] == ["loan_id"]
    assert renew_loan.parameters["additionalProperties"] is False
    assert Tool(name="ping", description="", effect="none").parameters["properties"] == {}
    assert Tool.model_validate(get_loan.model_dump()) == get_loan


def test_a_parameter_may_be_called_type_or_properties():
    tool = Tool(
        name="find",
        description="",
        effect="read",
        parameters={"type": {"type": "string"}, "properties": {"type": "integer"}},
    )
    assert tool.parameters["required"] == ["type", "properties"]


def test_the_hash_is_of_the_content_and_not_of_the_files(tmp_path):
    one = library(tmp_path)
    many = load_domain(
        write(
            tmp_path / "elsewhere",
            a=f"# comment\n{POLICIES}",
            b=TOOLS.replace("effect: read", 'effect: "read" # quoted'),
            c="name: library\ncastline: 1\nobservability: {roles: {critic: {sees: "
            "[policies, tools, messages, tool_calls, tool_results]}}}",
        )
    )
    assert many.hash == one.hash
    assert len(one.hash) == 64
    assert many.source == tmp_path / "elsewhere"
    other = write(tmp_path / "other", domain=f"{HEAD}\0{TOOLS}\0{POLICIES.replace('polite', 'kind')}")
    assert load_domain(other).hash != one.hash


def test_the_hash_is_pinned_so_that_a_change_of_its_making_is_noticed():
    tool = Tool(name="ping", description="Ping.", effect="none")
    assert Domain(name="tiny", tools=(tool,)).hash.startswith("2f9a37f96b541fe9")


def test_a_domain_that_sets_one_role_keeps_the_others():
    domain = Domain.model_validate(
        {"name": "x", "tools": [], "observability": {"roles": {"critic": {"sees": ["messages"]}}}}
    )
    roles = domain.observability.roles
    assert roles["critic"] == Role(sees=("messages",))
    assert roles["hindsight"] == Role(sees=("everything",))
    assert roles["user"].sees == ("scenario", "messages", "own_tool_results")
    assert "critic" in Domain(name="y", tools=()).observability.roles
    assert Domain(name="y", tools=()).observability.roles["critic"] != roles["critic"]


def test_error_kinds_are_the_built_in_ones_and_then_the_domains_own():
    own = ErrorKind(id="wrong_branch", check="grounding", text="Acts on another branch's copy.")
    kinds = Domain(name="x", tools=(), errors=(own,)).error_kinds()
    assert kinds == (*BUILT_IN_ERROR_KINDS, own)
    by_check = {}
    for kind in BUILT_IN_ERROR_KINDS:
        assert kind.text
        by_check.setdefault(kind.check, []).append(kind.id)
    assert {check: len(ids) for check, ids in by_check.items()} == {
        "grounding": 6,
        "policy": 8,
        "tool": 5,
        "progress": 4,
    }


def test_models_cannot_be_changed():
    clause = Clause(id="a", text="b")
    with pytest.raises(ValueError):
        clause.text = "c"  # pyright: ignore[reportAttributeAccessIssue]


def test_redaction_reads_its_yaml_key_and_its_python_name():
    assert Redaction.model_validate({"tool": "a", "path": "/b", "as": "x"}).as_ == "x"
    assert Redaction.model_validate({"tool": "a", "path": "/b", "as_": "y"}).as_ == "y"
    assert Redaction(tool="a", path="").as_ == "****"


@pytest.mark.parametrize(
    ("pointer", "segments"),
    [("", ()), ("/", ("",)), ("/a/0/*", ("a", "0", "*")), ("/a~1b/~0c/~01", ("a/b", "~c", "~1"))],
)
def test_pointers_are_split_as_rfc_6901_says(pointer, segments):
    assert pointer_segments(pointer) == segments


@pytest.mark.parametrize("pointer", ["a", "#/a", "/a~", "/a~2"])
def test_what_is_no_pointer_is_refused(pointer):
    with pytest.raises(ValueError):
        pointer_segments(pointer)


def test_both_suffixes_count_and_hidden_files_do_not(tmp_path):
    folder = write(tmp_path / "d", domain=f"{HEAD}\0{TOOLS}")
    (folder / "policies.yml").write_text("policies: [{id: a, text: b}]", encoding="utf-8")
    (folder / ".domain.yaml").write_text("]", encoding="utf-8")
    (folder / "notes.txt").write_text("]", encoding="utf-8")
    assert [clause.id for clause in load_domain(folder).policies] == ["a"]


def test_a_single_file_is_a_domain_too(tmp_path):
    file = write(tmp_path, single=f"{HEAD}\0{TOOLS}") / "single.yaml"
    assert load_domain(str(file)).source == file


def test_a_prompt_may_stand_in_a_file(tmp_path):
    folder = write(tmp_path, domain=f"{HEAD}\0{TOOLS}\0prompts: {{critic: {{file: prompts/critic.jinja}}}}")
    (folder / "prompts").mkdir()
    (folder / "prompts" / "critic.jinja").write_text("Judge {{ action }}.\n", encoding="utf-8")
    assert load_domain(folder).prompts == {"critic": "Judge {{ action }}.\n"}


def test_a_key_in_two_files_names_both_places(tmp_path):
    problem = only_problem(write(tmp_path / "d", a=f"{HEAD}\0{TOOLS}", b="# twice\nname: other"))
    assert (Path(problem.file).name, problem.line) == ("b.yaml", 2)
    assert "a.yaml:3:1" in str(problem.hint)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "null\n"])
def test_an_empty_file_is_one_clear_message(tmp_path, text):
    (tmp_path / "domain.yaml").write_text(text, encoding="utf-8")
    assert only_problem(tmp_path / "domain.yaml").message == "the file is empty"


@pytest.mark.parametrize("text", ["- a\n", "just text\n", "12\n"])
def test_a_file_that_is_no_mapping_is_one_clear_message(tmp_path, text):
    (tmp_path / "domain.yaml").write_text(text, encoding="utf-8")
    problem = only_problem(tmp_path)
    assert (problem.message, problem.line) == ("the file is not a mapping", 1)


def test_a_folder_without_yaml_is_one_clear_message(tmp_path):
    assert "no *.yaml" in only_problem(tmp_path).message


def test_a_missing_path_is_one_clear_message(tmp_path):
    problem = only_problem(tmp_path / "librari")
    assert problem.message == "no such file or folder"
    assert "library" in str(problem.hint)


def test_a_file_that_is_not_utf_8_is_one_clear_message(tmp_path):
    write(tmp_path, a=f"{HEAD}\0{TOOLS}")
    (tmp_path / "b.yaml").write_bytes(b"title: caf\xe9\n")
    problem = only_problem(tmp_path)
    assert (problem.line, problem.column) == (1, 11)
    assert "not UTF-8" in problem.message


def test_a_missing_version_and_a_wrong_one_are_errors(tmp_path):
    assert "`castline` is missing" in only_problem(write(tmp_path / "a", d=f"name: a\n\0{TOOLS}")).message
    for version in ("2", "true", "'1'", "[1]"):
        folder = write(tmp_path / "b", d=f"castline: {version}\nname: a\n\0{TOOLS}")
        assert "language version" in only_problem(folder).message


def test_warnings_do_not_keep_a_domain_from_loading(tmp_path):
    folder = write(tmp_path, domain=f"{HEAD}\0{TOOLS}\0policies: [{{id: a, text: b, effects: [none]}}]")
    report = check_domain(folder)
    assert [problem.severity for problem in report.problems] == ["warning"]
    assert report.domain is not None
    assert report.errors == ()


def test_all_problems_are_raised_as_one_user_error(tmp_path):
    folder = write(tmp_path, domain=f"{HEAD}\0{TOOLS}\0stat: 1\npolices: []")
    with pytest.raises(UserError) as raised:
        load_domain(folder)
    assert isinstance(raised.value, SpecErrors)
    assert len(raised.value.problems) == 2
    assert str(raised.value).count("error:") == 2


def test_what_an_unreadable_file_may_hold_is_not_called_missing(tmp_path):
    broken = f"{TOOLS}\0policies: [{{id: a\n"
    folder = write(
        tmp_path / "a", domain="castline: 1", more=f"name: x\n\0{POLICIES}", tools=f"bad: [\n\0{TOOLS}"
    )
    assert [Path(problem.file).name for problem in check_domain(folder).problems] == ["tools.yaml"]
    folder = write(tmp_path / "b", domain=broken)
    assert ["not YAML" in problem.message for problem in check_domain(folder).problems] == [True]
