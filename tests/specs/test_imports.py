"""A spec is read without the machinery that uses it."""

import json
import subprocess
import sys

HEAVY = ("torch", "transformers", "vllm", "duckdb", "pyarrow", "jinja2", "jsonschema_rs", "numpy")


def modules_after(code: str) -> set[str]:
    code += "\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(result.stdout)}


def test_importing_specs_loads_nothing_heavy():
    assert modules_after("import castline.specs") & set(HEAVY) == set()


def test_checking_a_domain_loads_what_checks_schemas_and_no_more():
    code = "from castline.specs import check_domain, find_domain\ncheck_domain(find_domain('library'))"
    assert modules_after(code) & set(HEAVY) == {"jsonschema_rs"}
