"""The control API: `/control/…`, for tests in other processes. It needs no key.

GET    /control/record?account=…&since=…   the exchanges, as JSON
GET    /control/bill?account=…&since=…     their charges, and the sums by account
GET    /control/owned                      the ids that each account owns
POST   /control/faults                     a fault or a list of faults (`Fault`), queued
GET    /control/faults                     the faults that wait
DELETE /control/faults                     drop them
POST   /control/schedule                   {"seed": 1, "rate": 0.2, …} (`Schedule`); null: none
POST   /control/scripts                    a script (`writer.Script`), a turn for each request
POST   /control/accounts                   {"name": "gamma", "keys": ["key-gamma"]}
DELETE /control/accounts?key=…             revoke a key
POST   /control/pace                       {"tokens_per_second": 50, "first_token": 0.2}
POST   /control/reset                      forget record, faults, scripts and prompt cache
"""

from __future__ import annotations

from typing import Any

from lab.vendor import jsons
from lab.vendor.faults import Fault, Schedule
from lab.vendor.protocols.base import Reply
from lab.vendor.state import State
from lab.vendor.writer import Script

__all__ = ["control"]


async def control(
    state: State, method: str, path: str, query: dict[str, str], body: bytes
) -> Reply:
    """Serve one request to the control API."""
    try:
        answer = _control(state, method, path.removeprefix("/control/"), query, body)
    except (ValueError, TypeError, KeyError) as error:
        return Reply.json({"error": f"{error}"}, 400)
    if answer is None:
        return Reply.json({"error": f"no control at {method} {path}"}, 404)
    return Reply.json(answer)


def _control(state: State, method: str, name: str, query: dict[str, str], body: bytes) -> Any:
    account = query.get("account")
    since = int(query.get("since", 0))
    data: Any = jsons.load(body) if body else None
    match method, name:
        case "GET", "record":
            return [exchange.as_json() for exchange in state.record.of(account, since)]
        case "GET", "bill":
            return state.bill(account, since)
        case "GET", "owned":
            return state.owned.owners()
        case "POST", "faults":
            added = [Fault.of(each) for each in (data if isinstance(data, list) else [data])]
            for fault in added:
                state.faults.add(fault)
            return {"waiting": len(state.faults.waiting())}
        case "GET", "faults":
            return [fault.as_json() for fault in state.faults.waiting()]
        case "DELETE", "faults":
            state.faults.clear()
            return {"waiting": 0}
        case "POST", "schedule":
            state.schedule = None if data is None else Schedule(**data)
            return {"schedule": data}
        case "POST", "scripts":
            state.scripts.extend(Script.of(data).split())
            return {"waiting": len(state.scripts)}
        case "POST", "accounts":
            state.accounts.add(data["name"], data["keys"])
            return {"name": data["name"]}
        case "DELETE", "accounts":
            state.accounts.revoke(query["key"])
            return {"revoked": True}
        case "POST", "pace":
            state.tokens_per_second = data.get("tokens_per_second")
            state.first_token = data.get("first_token", 0.0)
            return data
        case "POST", "reset":
            state.record.clear()
            state.faults.clear()
            state.scripts.clear()
            state.cache.clear()
            return {"reset": True}
    return None
