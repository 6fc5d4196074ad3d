"""One simulated vendor: every upstream protocol, its own record, and its own bill.

    from lab.vendor import Vendor

    with Vendor() as vendor:
        client = openai.OpenAI(base_url=vendor.url + "/v1", api_key="key-alpha")
        ...
        [exchange] = vendor.state.record.of("alpha")
        print(exchange.texts, exchange.charge)

Written from the APIs' documents; of swink it imports the rules of the judge alone (`judging`).
"""

from lab.vendor.bill import Charge, Usage
from lab.vendor.clock import Clock, ManualClock, SystemClock
from lab.vendor.faults import Fault, Schedule
from lab.vendor.record import Exchange, Record
from lab.vendor.server import Vendor
from lab.vendor.state import State
from lab.vendor.writer import Script

__all__ = [
    "Charge",
    "Clock",
    "Exchange",
    "Fault",
    "ManualClock",
    "Record",
    "Schedule",
    "Script",
    "State",
    "SystemClock",
    "Usage",
    "Vendor",
]
