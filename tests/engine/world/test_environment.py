"""One episode's world: what calls give, how they fail, and that a failed one changes nothing."""

import sqlite3

import pytest
from castline.engine.world import Environment
from castline.specs import Domain
from castline.specs.sql import Refused


@pytest.fixture
def environment(shop, image):
    opened = Environment(shop, image)
    yield opened
    opened.close()


def pieces(environment: Environment, sku: str) -> int:
    return environment.world.connection.execute("SELECT pieces FROM stock WHERE sku = ?", (sku,)).fetchone()[
        0
    ]


def test_a_call_gives_text_or_json_as_its_result(environment):
    assert environment.step("find_user", {"email": "ben@example.org"}).text == "u2"
    assert environment.step("get_order", {"order_id": "O1"}).text.startswith('{"order_id": "O1"')
    stock = environment.step("get_stock", {}).text
    assert stock.startswith("cup: ") and stock.count(", ") == 2
    assert environment.step("reserve", {"sku": "cup", "pieces": 1}).text == "Reserved 1 of cup."


@pytest.mark.parametrize(
    ("tool", "arguments", "status", "says"),
    [
        ("drop_table", {}, "unknown_tool", "unknown tool drop_table"),
        ("get_order", {"id": "O1"}, "schema", "order_id"),
        ("cancel_order", {"order_id": "O1", "reason": "bored"}, "schema", "reason"),
        ("get_order", {"order_id": "O7"}, "guard", "Error: no order O7"),
        ("cancel_order", {"order_id": "O2", "reason": "late"}, "guard", "Error: order O2 is sent"),
    ],
)
def test_a_call_fails_in_declared_ways_and_changes_nothing(environment, tool, arguments, status, says):
    before = environment.hash()
    result = environment.step(tool, arguments)
    assert (result.status, result.ok) == (status, False)
    assert says in result.text
    assert environment.hash() == before


def test_effects_are_all_or_nothing(environment):
    assert environment.step("reserve", {"sku": "cup", "pieces": 1}).ok
    before, had = environment.hash(), pieces(environment, "cup")
    # The second reservation of the same article breaks the key after the stock was changed.
    result = environment.step("reserve", {"sku": "cup", "pieces": 1})
    assert result.status == "limit"
    assert (environment.hash(), pieces(environment, "cup")) == (before, had)


def with_tool(shop: Domain, **simulate) -> Domain:
    simulation = shop.tools[2].simulate
    assert simulation is not None
    tool = shop.tools[2].model_copy(update={"simulate": simulation.model_copy(update=simulate)})
    return shop.model_copy(update={"tools": (tool,)})


LOOP = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r)"


@pytest.mark.parametrize(
    "simulate",
    [
        {"effects": (f"{LOOP} INSERT INTO reservations SELECT i, i FROM r",)},
        {
            "effects": (
                "UPDATE stock SET pieces = 0",
                f"{LOOP} DELETE FROM stock WHERE sku IN (SELECT i FROM r)",
            )
        },
        {
            "effects": ("UPDATE stock SET pieces = 0",),
            "returns": f"{LOOP} SELECT i AS sku, i AS pieces FROM r",
        },
        {"effects": ("UPDATE stock SET pieces = 0",), "text": "{{ rows[0].sku + 1 }}"},
    ],
)
def test_what_takes_too_long_or_cannot_be_written_is_undone_and_the_world_lives_on(shop, image, simulate):
    environment = Environment(with_tool(shop, **simulate), image)
    before = environment.hash()
    assert environment.step("get_stock", {}).status == "limit"
    assert environment.hash() == before
    environment.domain = shop
    assert environment.step("cancel_order", {"order_id": "O1", "reason": "late"}).ok
    assert environment.hash() != before
    environment.close()


def test_a_snapshot_is_the_state_to_branch_from(shop, environment, image):
    environment.step("cancel_order", {"order_id": "O1", "reason": "late"})
    middle, then = environment.snapshot(), environment.hash()
    environment.step("cancel_order", {"order_id": "O3", "reason": "late"})
    after = environment.hash()
    environment.restore(middle)
    assert environment.hash() == then
    other = Environment(shop, image)
    other.restore(middle)
    assert other.step("cancel_order", {"order_id": "O3", "reason": "late"}).ok
    assert other.hash() == after
    environment.restore(image.data)
    assert environment.hash() == Environment(shop, image).hash()


def test_the_hash_is_of_the_state_and_not_of_its_history_or_spelling(shop, image):
    one, other = Environment(shop, image), Environment(shop, image)
    assert one.hash() == other.hash()
    for number in ("O1", "O3"):
        one.step("cancel_order", {"order_id": number, "reason": "late"})
    for number in ("O3", "O1"):
        other.step("cancel_order", {"order_id": number, "reason": "late"})
        other.step("get_order", {"order_id": "O9"})
    assert one.hash() == other.hash()
    spelled = '{"reason":"late",  "status":"cancelled","price":4.50000000001,"sku":"cup"'
    spelled += ',"user_id":"u1","order_id":"O1"}'
    other.world.connection.execute("UPDATE orders SET body = ? WHERE order_id = 'O1'", (spelled,))
    assert one.hash() == other.hash()
    other.world.connection.execute(
        "UPDATE orders SET body = json_set(body, '$.price', 4.6) WHERE order_id = 'O1'"
    )
    assert one.hash() != other.hash()


def test_chance_is_the_seeds(shop, image):
    def drawn(seed: int) -> list:
        environment = Environment(shop, image, seed)
        return [environment.world.first("SELECT random() AS n", {}) for _ in range(3)]

    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.parametrize("table", ["calls", "messages", "action", "sqlite_schema"])
def test_no_effect_reaches_beyond_the_domains_tables(environment, table):
    with pytest.raises((Refused, sqlite3.Error), match=table.replace("schema", "master")):
        environment.world.rows(f"DELETE FROM {table}", {}, write=True)
    with pytest.raises(Refused, match="may not change anything"):
        environment.world.rows("DELETE FROM stock", {})
