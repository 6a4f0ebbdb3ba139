"""A small shop with every kind of table, on which the tests of the world run."""

from __future__ import annotations

from pathlib import Path

import pytest
from castline.engine.world import Image, build
from castline.specs import Domain, load_domain

SHOP = r"""
castline: 1
name: shop
clock: "2024-05-15 15:00:00"
tools:
  - name: find_user
    description: Find a user.
    effect: read
    parameters: {email: {type: string}}
    simulate:
      guards:
        - unless: SELECT 1 FROM users WHERE email = :email
          error: "Error: nobody has {{ email }}"
      returns: SELECT user_id FROM users WHERE email = :email
  - name: get_order
    description: Show an order.
    effect: read
    parameters: {order_id: {type: string}}
    simulate:
      guards:
        - unless: SELECT 1 FROM orders WHERE order_id = :order_id
          error: "Error: no order {{ order_id }}"
      returns: SELECT body FROM orders WHERE order_id = :order_id
    reveals: {orders: "$"}
  - name: get_stock
    description: How many pieces of each article there are.
    effect: read
    simulate:
      returns: SELECT sku, pieces FROM stock ORDER BY sku
      text: "{% for row in rows %}{{ row.sku }}: {{ row.pieces }}{{ '' if loop.last else ', ' }}{% endfor %}"
    reveals:
      stock:
        - |
          INSERT INTO stock (sku, pieces)
          SELECT value ->> 1, CAST(value ->> 2 AS INTEGER) FROM json_each(captures('(\w+): (\d+)', :result))
          WHERE true ON CONFLICT (sku) DO UPDATE SET pieces = excluded.pieces
  - name: cancel_order
    description: Cancel an order that has not been sent.
    effect: irreversible
    parameters:
      order_id: {type: string}
      reason: {enum: [late, mistake]}
    simulate:
      guards:
        - unless: SELECT 1 FROM orders WHERE order_id = :order_id
          error: "Error: no order {{ order_id }}"
        - when: SELECT status FROM orders WHERE order_id = :order_id AND status = 'sent'
          error: "Error: order {{ order_id }} is {{ status }}"
      effects:
        - UPDATE stock SET pieces = pieces + 1 WHERE sku = (SELECT sku FROM orders WHERE order_id = :order_id)
        - >-
          UPDATE orders SET body = json_set(body, '$.status', 'cancelled', '$.reason', :reason)
          WHERE order_id = :order_id
      returns: SELECT body FROM orders WHERE order_id = :order_id
    reveals: {orders: "$"}
  - name: reserve
    description: Take pieces out of the stock.
    effect: write
    parameters:
      type: object
      properties: {sku: {type: string}, pieces: {type: integer}, note: {type: string}}
      required: [sku, pieces]
    simulate:
      effects:
        - UPDATE stock SET pieces = pieces - :pieces WHERE sku = :sku
        - INSERT INTO reservations VALUES (:sku, :pieces)
      text: "Reserved {{ pieces }} of {{ sku }}{% if note %} ({{ note }}){% endif %}."
policies:
  - id: cancel.open
    text: Only an open order is cancelled.
    tools: [cancel_order]
    needs: SELECT status IS NOT NULL FROM orders WHERE order_id = :order_id
    violated_when: SELECT 1 FROM orders WHERE order_id = :order_id AND status <> 'open'
  - id: stock.enough
    text: No more is reserved than there is.
    tools: [reserve]
    needs: SELECT pieces IS NOT NULL FROM stock WHERE sku = :sku
    violated_when: SELECT 1 FROM stock WHERE sku = :sku AND pieces < :pieces
  - id: found.first
    text: The user is found first.
    tools: [cancel_order]
    violated_when: SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM calls WHERE tool = 'find_user' AND NOT error)
state:
  users: {key: user_id, columns: {user_id: text, email: text}, file: users.csv}
  orders:
    key: order_id
    columns: {order_id: text, user_id: text, sku: text, status: text, body: document}
    index: [user_id]
    rows:
      - {order_id: O1, user_id: u1, sku: cup, status: open, price: 4.5}
      - {order_id: O2, user_id: u1, sku: jug, status: sent, price: 9.0}
      - {order_id: O3, user_id: u2, sku: cup, status: open, price: 4.5}
      - {order_id: O4, user_id: u2, sku: jug, status: open, price: 9.25}
  stock:
    key: sku
    columns: {sku: text, pieces: integer}
    generate: |
      SELECT sku, draw(10, 'pieces', sku) + 1 AS pieces
      FROM (SELECT DISTINCT sku FROM orders UNION ALL SELECT 'extra' || n FROM range(scale()) r(n))
      ORDER BY sku
  reservations:
    key: sku
    columns: {sku: text, pieces: integer}
tasks:
  - id: cancel
    for_each: |
      SELECT order_id, email, body ->> 'price' AS price, body -> 'price' AS number
      FROM orders JOIN users USING (user_id) WHERE status = 'open' ORDER BY order_id
    user:
      goal: You want to cancel order {{ order_id }}.
      opens: Please cancel order {{ order_id }}. How much do I get back?
      knows: {address: "{{ email }}"}
    reads:
      - {tool: find_user, arguments: {email: "{{ email }}"}}
      - {tool: get_order, arguments: {order_id: "{{ order_id }}"}}
    actions:
      - {tool: cancel_order, arguments: {order_id: "{{ order_id }}", reason: mistake}}
    says: ["{{ price }}"]
  - id: changed_mind
    for_each: SELECT order_id, email FROM orders JOIN users USING (user_id) WHERE order_id = 'O1'
    user: {goal: "Cancel {{ order_id }}?", knows: {address: "{{ email }}"}, declines: true}
    reads:
      - {tool: find_user, arguments: {email: "{{ email }}"}}
      - {tool: get_order, arguments: {order_id: "{{ order_id }}"}}
    actions:
      - {tool: cancel_order, arguments: {order_id: "{{ order_id }}", reason: late}}
faults:
  - id: other_order
    tool: cancel_order
    argument: order_id
    with: SELECT order_id FROM orders WHERE order_id <> :order_id ORDER BY random() LIMIT 1
    error: swapped_entity
  - {id: forgotten, tool: cancel_order, drop: action, error: premature_end}
  - {id: unidentified, tool: cancel_order, drop: authentication, error: unauthenticated}
  - {id: twice, tool: cancel_order, repeat: true, error: redundant}
"""


@pytest.fixture(scope="session")
def shop_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "domain.yaml").write_text(SHOP, encoding="utf-8")
    (folder / "users.csv").write_text(
        "user_id,email\nu1,ada@example.org\nu2,ben@example.org\n", encoding="utf-8"
    )
    return folder


@pytest.fixture(scope="session")
def shop(shop_folder) -> Domain:
    return load_domain(shop_folder)


@pytest.fixture(scope="session")
def image(shop) -> Image:
    return build(shop)
