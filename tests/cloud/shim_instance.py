# SPDX-License-Identifier: Apache-2.0
"""shim_instance.py: one instance, as far as moto forgets what it was asked to be and how it ends."""

import time


class Instance:
    """What an instance was asked to be, as far as moto forgets it."""

    def __init__(self, call, zone):
        p = call.params
        self.region, self.zone = call.region, zone
        self.params = p
        self.spot = p.get("InstanceMarketOptions.MarketType") == "spot"
        self.spot_id = ""
        self.group = p.get("Placement.GroupName", "")
        self.reservation = p.get(
            "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId", "")
        self.private_ip = self.subnet = self.end_reason = ""
        self.gone_at = 0.0

    def end(self, reason, seconds):
        """Whatever ends it first; for so long it is shutting down."""
        if not self.end_reason:
            self.end_reason, self.gone_at = reason, time.monotonic() + seconds

    def end_now(self):
        self.gone_at = 0.0

    def is_ending(self):
        return bool(self.end_reason) and time.monotonic() < self.gone_at

    def is_gone(self):
        return bool(self.end_reason) and not self.is_ending()
