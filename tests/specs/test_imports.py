"""A spec is read without the machinery that uses it."""

import json
import subprocess
import sys

HEAVY = ("torch", "transformers", "vllm", "duckdb", "pyarrow", "jinja2", "jsonschema_rs", "numpy", "sqlite3")


def modules_after(code: str) -> set[str]:
    code += "\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(result.stdout)}


def test_importing_specs_loads_nothing_heavy():
    assert modules_after("import castline.specs") & set(HEAVY) == set()


def test_checking_a_domain_loads_what_checks_schemas_and_no_more(tmp_path):
    (tmp_path / "domain.yaml").write_text(
        "castline: 1\nname: x\n"
        "tools: [{name: a, description: A., effect: read, parameters: {b: {type: string}}}]"
    )
    code = f"from castline.specs import load_domain\nload_domain({str(tmp_path)!r})"
    assert modules_after(code) & set(HEAVY) == {"jsonschema_rs"}
    code = f"import sys; sys.argv = ['castline', 'validate', {str(tmp_path)!r}]\n"
    code += "from castline.engine.cli import main\ntry: main()\nexcept SystemExit: pass"
    assert modules_after(code) & set(HEAVY) == {"jsonschema_rs"}


def test_checking_a_world_loads_sqlite_and_templates_and_no_more():
    code = "from castline.specs import check_domain, find_domain\ncheck_domain(find_domain('library'))"
    assert modules_after(code) & set(HEAVY) == {"jsonschema_rs", "jinja2", "sqlite3"}
