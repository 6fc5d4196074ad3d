"""The table of protocols: every package has a row, and what derives from the rows is complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from serving import ask, serving
from test_failing_well import ASKING

import swink_gateway.protocols
from swink_gateway.policy.access import NO_KEY
from swink_gateway.policy.permissions import KNOWN_FIELDS
from swink_gateway.protocols.table import ID_FIELDS, PRICED_FIELDS, PROTOCOLS, Row

ROWS = pytest.mark.parametrize("row", PROTOCOLS.values(), ids=PROTOCOLS)


def test_every_protocol_package_has_a_row() -> None:
    folder = Path(swink_gateway.protocols.__file__).parent
    assert {path.parent.name for path in folder.glob("*/protocol.py")} == PROTOCOLS.keys()


def test_the_failures_of_every_protocol_are_tested() -> None:
    assert ASKING.keys() == PROTOCOLS.keys()


@ROWS
def test_the_endpoints_of_a_row_speak_its_protocol(row: Row) -> None:
    assert {endpoint.make().name for endpoint in row.endpoints} == {row.name}


def test_no_path_is_in_two_rows() -> None:
    paths = [endpoint.path for row in PROTOCOLS.values() for endpoint in row.endpoints]
    paths += [path for row in PROTOCOLS.values() for path in row.lists]
    assert len(paths) == len({*paths})


@ROWS
async def test_the_server_has_the_endpoints_of_a_row(row: Row) -> None:
    async with serving() as gateway:
        for endpoint in row.endpoints:
            path = endpoint.path.replace("{version:v1|v1beta}", "v1beta")
            path = path.replace("{model:.+}", "m").partition("{")[0]
            path += "countTokens" if endpoint.counts else "generateContent"
            path = path if ":" in path else endpoint.path
            answer = await ask(gateway, path, b"{")
            assert answer.status == 400, answer.body


@ROWS
async def test_the_page_shows_how_to_point_clients_at_the_gateway(row: Row) -> None:
    assert row.setup is not None
    async with serving() as gateway:
        page = (await ask(gateway, "/")).body.decode()
    [line] = [line for line in page.splitlines() if row.setup.address in line]
    setups = json.loads(line.partition(" = ")[2].partition(".map(")[0])
    assert row.setup.clients in [setup["clients"] for setup in setups]


@ROWS
def test_the_policy_uses_the_headers_and_fields_of_each_row(row: Row) -> None:
    assert row.key_header is None or row.key_header in NO_KEY
    assert row.safe_fields | row.id_fields | row.priced_fields <= KNOWN_FIELDS
    assert row.id_fields <= ID_FIELDS
    assert row.priced_fields <= PRICED_FIELDS


@ROWS
def test_a_field_of_a_row_has_one_meaning(row: Row) -> None:
    groups = (row.safe_fields, row.id_fields, row.priced_fields)
    assert sum(map(len, groups)) == len(frozenset().union(*groups))
