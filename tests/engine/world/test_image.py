"""A prepared world: where its rows come from, and that it is the same each time."""

import json
import sqlite3

import pytest
from castline.engine.world import Image, build
from castline.specs import SpecErrors, UserError


def rows(image: Image, sql: str) -> list[tuple]:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(image.data)
    return connection.execute(sql).fetchall()


def test_rows_come_from_a_file_from_the_domain_and_from_a_generator(image):
    assert image.counts == {"users": 2, "orders": 4, "stock": 3, "reservations": 0}
    assert rows(image, "SELECT * FROM users") == [("u1", "ada@example.org"), ("u2", "ben@example.org")]
    assert [sku for sku, _ in rows(image, "SELECT * FROM stock")] == ["cup", "extra0", "jug"]


def test_columns_beside_a_document_are_read_out_of_it(image):
    assert rows(image, "SELECT sku, status, body ->> 'price' FROM orders WHERE order_id = 'O2'") == [
        ("jug", "sent", 9.0)
    ]
    assert rows(image, "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL") == [
        ("orders_0",)
    ]


def test_seed_and_scale_decide_what_is_generated(shop, image):
    assert build(shop).data == image.data
    stocks = {tuple(rows(build(shop, seed=seed), "SELECT * FROM stock")) for seed in range(4)}
    assert len(stocks) == 4
    large = build(shop, scale=50)
    assert large.counts["stock"] == 52
    # What was there in the small world is there in the large one as well.
    small = set(rows(image, "SELECT * FROM stock"))
    assert small < set(rows(large, "SELECT * FROM stock"))


def test_tables_of_a_benchmark_replace_the_domains_own(shop, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    (first / "orders.json").write_text(json.dumps({"O9": {"order_id": "O9", "status": "open"}}))
    (first / "stock.csv").write_text("sku,pieces\npot,3\nlid,\n")
    (second / "orders.json").write_text(json.dumps([{"order_id": "O8", "status": "sent", "more": [1]}]))
    given = build(shop, directories=[first, second])
    assert given.counts == {"users": 0, "orders": 1, "stock": 2, "reservations": 0}
    assert rows(given, "SELECT order_id, status, body ->> '$.more[0]' FROM orders") == [("O8", "sent", 1)]
    assert rows(given, "SELECT * FROM stock") == [("pot", 3), ("lid", None)]


def test_objects_by_key_need_not_repeat_it(shop, tmp_path):
    (tmp_path / "orders.json").write_text(json.dumps({"O9": {"status": "open"}}))
    assert rows(build(shop, directories=[tmp_path]), "SELECT order_id, status FROM orders") == [
        ("O9", "open")
    ]


def test_a_missing_folder_and_a_broken_file_are_named(shop, tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        build(shop, directories=[tmp_path / "none"])
    (tmp_path / "orders.json").write_text("{")
    with pytest.raises(UserError, match=r"orders\.json: not JSON"):
        build(shop, directories=[tmp_path])


def test_two_rows_with_one_key_are_an_error_with_a_place(shop, tmp_path):
    (tmp_path / "stock.csv").write_text("sku,pieces\npot,3\npot,4\n")
    with pytest.raises(SpecErrors, match=r"domain\.yaml:\d+:\d+: error: the rows of `stock`: UNIQUE"):
        build(shop, directories=[tmp_path])
