"""What results reveal, what the checks read of it, and what they say in both worlds."""

import pytest
from castline.engine.world import Cell, Environment, KnownWorld, check_known, check_true, known_world

CANCEL = {"order_id": "O1", "reason": "late"}


@pytest.fixture
def known(shop):
    opened = KnownWorld(shop)
    yield opened
    opened.close()


def rows(known: KnownWorld, sql: str) -> list[tuple]:
    return known.world.connection.execute(sql).fetchall()


def verdicts(findings) -> dict[str, str]:
    assert [finding.problem for finding in findings if finding.problem] == []
    return {finding.clause: finding.verdict for finding in findings}


def see(known: KnownWorld, environment: Environment, step: int, tool: str, arguments: dict) -> None:
    result = environment.step(tool, arguments)
    known.see_result(step, tool, arguments, result.text, not result.ok)


def test_nothing_is_known_at_first(known):
    assert rows(known, "SELECT * FROM orders") == []
    assert verdicts(check_known(known, "cancel_order", CANCEL)) == {
        "cancel.open": "unknown",
        "found.first": "violated",
    }


def test_a_path_reveals_objects_and_later_results_replace_their_fields(known):
    known.see_result(
        3, "get_order", {}, '{"order_id": "O1", "status": "open", "items": {"a": 1}, "by": "u1"}', False
    )
    known.see_result(
        5, "get_order", {}, '{"order_id": "O1", "status": "cancelled", "items": {"b": 2}}', False
    )
    known.see_result(7, "get_order", {}, "Error: no order O7", True)
    known.see_result(8, "get_order", {}, "not what was expected", False)
    assert rows(
        known,
        "SELECT order_id, status, body ->> '$.by', body ->> '$.items.a', body ->> '$.items.b' FROM orders",
    ) == [("O1", "cancelled", "u1", None, 2)]
    assert len(rows(known, "SELECT * FROM calls")) == 4


def test_sql_reveals_what_stands_in_text(known, shop, image):
    environment = Environment(shop, image)
    see(known, environment, 3, "get_stock", {})
    assert (
        rows(known, "SELECT * FROM stock")
        == environment.world.connection.execute("SELECT * FROM stock").fetchall()
    )
    (finding,) = check_known(known, "reserve", {"sku": "cup", "pieces": 99})
    assert finding.verdict == "violated"
    assert {(cell.key, cell.column, cell.step) for cell in finding.cells} == {
        ("cup", "sku", 3),
        ("cup", "pieces", 3),
    }
    environment.close()


def test_the_cells_that_a_check_read_are_its_evidence(known, shop, image):
    environment = Environment(shop, image)
    see(known, environment, 2, "find_user", {"email": "ada@example.org"})
    see(known, environment, 4, "get_order", {"order_id": "O1"})
    see(known, environment, 6, "get_order", {"order_id": "O3"})
    (finding, other) = check_known(known, "cancel_order", CANCEL)
    assert (finding.clause, finding.verdict) == ("cancel.open", "kept")
    assert set(finding.cells) == {
        Cell("orders", "O1", "order_id", "O1", 4),
        Cell("orders", "O1", "status", "open", 4),
    }
    assert (other.clause, other.verdict, other.cells) == ("found.first", "kept", ())
    environment.close()


def test_the_worlds_may_disagree(known, shop, image):
    environment = Environment(shop, image)
    environment.world.connection.execute("INSERT INTO calls VALUES (2, 'find_user', '{}', 'u1', 0)")
    see(known, environment, 2, "find_user", {"email": "ada@example.org"})
    see(known, environment, 4, "get_order", {"order_id": "O1"})
    environment.step("cancel_order", CANCEL)
    # Somebody else cancelled it: what is visible says that it is open.
    assert verdicts(check_known(known, "cancel_order", CANCEL)) == {
        "cancel.open": "kept",
        "found.first": "kept",
    }
    true = check_true(environment.world, shop, "cancel_order", CANCEL)
    assert verdicts(true) == {"cancel.open": "violated", "found.first": "kept"}
    see(known, environment, 6, "get_order", {"order_id": "O1"})
    assert verdicts(check_known(known, "cancel_order", CANCEL))["cancel.open"] == "violated"
    environment.close()


def test_an_argument_that_is_not_given_is_null(known, shop, image):
    environment = Environment(shop, image)
    see(known, environment, 2, "get_stock", {})
    assert verdicts(check_known(known, "reserve", {"sku": "cup", "pieces": 99})) == {
        "stock.enough": "violated"
    }
    assert verdicts(check_known(known, "reserve", {"sku": "cup"})) == {"stock.enough": "kept"}
    assert check_known(known, None, {}) == []
    environment.close()


def test_a_check_that_cannot_be_run_says_so(known, shop):
    clause = shop.policies[2].model_copy(update={"violated_when": "SELECT json_extract(:reason, '$')"})
    known.domain = shop.model_copy(update={"policies": (clause,)})
    (finding,) = check_known(known, "cancel_order", CANCEL)
    assert finding.verdict == "unknown"
    assert "JSON" in (finding.problem or "")


ORDER = '{"order_id": "O1", "status": "open", "items": {"a": 1}, "by": "u1"}'


def test_a_known_world_serves_the_next_trajectory_and_remembers_nothing(shop):
    with known_world(shop) as first:
        first.see_message(1, "user", "Cancel O1.")
        first.see_result(3, "get_order", {}, ORDER, False)
        seen = check_known(first, "cancel_order", CANCEL)
        assert verdicts(seen)["cancel.open"] == "kept"
    with known_world(shop) as second:
        assert second is first
        assert verdicts(check_known(second, "cancel_order", CANCEL)) == {
            "cancel.open": "unknown",
            "found.first": "violated",
        }
        second.see_result(9, "get_order", {}, ORDER, False)
        again = check_known(second, "cancel_order", CANCEL)
        assert {cell.step for finding in again for cell in finding.cells} == {9}
    with known_world(shop.model_copy()) as other:
        assert other is not first


def test_a_known_world_that_failed_is_not_used_again(shop):
    with pytest.raises(RuntimeError), known_world(shop) as failed:
        raise RuntimeError
    with known_world(shop) as next_one:
        assert next_one is not failed
