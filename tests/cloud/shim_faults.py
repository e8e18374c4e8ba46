# SPDX-License-Identifier: Apache-2.0
"""Faults of the API: what is refused, delayed or lost, and how often.

A fault is a JSON object with "kind" and what it applies to:
    capacity     zone (or "*"), market (spot, on-demand or any), after (instances that still start)
    quota        vcpus: the limit for all running instances of that market
    unsupported  zone: the type is not offered there
    placement    zone: the placement group cannot take more
    price        spot price above the maximum
    deny         action: the caller may not do it
    throttle     action: too many requests
    hang         action, seconds: done at once, but the answer comes late, or when this is forgotten
    lost         action: done, but the connection closes before the answer
    stale        the tagging API still lists what is gone
    late         code: an instance is started, and AWS ends it before it runs
    ending       seconds: instances are shutting down for so long from now on (not a fault: it holds
                 for all of them, 3 when nothing is said; when faults are forgotten, they have ended)
"times" (default: always) is how often a fault strikes before it is spent.
"""

import threading

HANG_SECONDS_MAX = 300


class Fault:
    """One fault; `before` refuses the call, `loses_answer` is asked when the call was done."""

    def __init__(self, wish):
        self.lock = threading.Lock()
        self.forgotten = threading.Event()
        self.kind = wish["kind"]
        if self.kind not in KINDS:
            raise ValueError(f"no fault is called {self.kind!r}")
        self.code = wish.get("code", "Server.InsufficientInstanceCapacity")
        self.zone, self.market = wish.get("zone", "*"), wish.get("market", "any")
        self.action = wish.get("action", "GetResources" if self.kind == "stale" else "RunInstances")
        self.after_count = int(wish.get("after", 0))
        self.times = int(wish["times"]) if "times" in wish else None
        self.vcpus = int(wish.get("vcpus", 0))
        self.seconds = min(float(wish.get("seconds", 5)), HANG_SECONDS_MAX)

    def applies(self, call):
        if self.action not in ("*", call.action):
            return False
        if call.action != "RunInstances":
            return True
        ec2 = call.cloud.ec2
        if self.zone not in ("*", ec2.zone_of(call)):
            return False
        if self.market not in ("any", ec2.market_of(call)):
            return False
        if self.kind == "placement" and "Placement.GroupName" not in call.params:
            return False
        if self.kind == "quota":
            return ec2.vcpus_running(call) + ec2.vcpus_of(call) > self.vcpus
        return True

    def strikes(self, call):
        if not self.applies(call):
            return False
        with self.lock:  # several calls come at once
            if self.after_count > 0:
                self.after_count -= 1
                return False
            if self.times is not None:
                self.times -= 1
            return self.times is None or self.times >= 0

    def before(self, call):
        """(status, code, message), or None when the call is done nevertheless."""
        return KINDS[self.kind](self, call)

    def loses_answer(self):
        if self.kind == "hang":
            self.forgotten.wait(self.seconds)
        return self.kind == "lost"


def capacity(fault, call):
    kind, zone = call.params.get("InstanceType", "?"), call.cloud.ec2.zone_of(call)
    if fault.zone == "*":
        return 500, "InsufficientInstanceCapacity", (
            f"There is no {kind} capacity available at the moment in {call.region}.")
    others = ", ".join(call.region + letter for letter in "abc" if call.region + letter != zone)
    return 500, "InsufficientInstanceCapacity", (
        f"We currently do not have sufficient {kind} capacity in the Availability Zone you "
        f"requested ({zone}). You can currently get {kind} capacity by not specifying an "
        f"Availability Zone in your request or choosing {others}.")


def quota(fault, call):
    if call.cloud.ec2.market_of(call) == "spot":
        return 400, "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"
    return 400, "VcpuLimitExceeded", (
        f"You have requested more vCPU capacity than your current vCPU limit of {fault.vcpus} "
        "allows for the instance bucket that the specified instance type belongs to. Please visit "
        "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.")


def unsupported(fault, call):
    del fault
    kind, zone = call.params.get("InstanceType", "?"), call.cloud.ec2.zone_of(call)
    others = ", ".join(call.region + letter for letter in "abc" if call.region + letter != zone)
    return 400, "Unsupported", (
        f"Your requested instance type ({kind}) is not supported in your requested Availability "
        f"Zone ({zone}). Please retry your request by not specifying an Availability Zone or "
        f"choosing {others}.")


KINDS = {
    "capacity": capacity,
    "quota": quota,
    "unsupported": unsupported,
    "placement": lambda fault, call: (
        500, "InsufficientInstanceCapacity",
        "There is not enough capacity to fulfill your request for this cluster placement group."),
    "price": lambda fault, call: (
        400, "SpotMaxPriceTooLow",
        "Your Spot request price is lower than the minimum required Spot request fulfillment "
        "price."),
    "deny": lambda fault, call: (
        403, "AccessDenied" if call.service == "s3" else "UnauthorizedOperation",
        f"You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/"
        f"tester is not authorized to perform: {call.service}:{call.action}"),
    "throttle": lambda fault, call: (503, "RequestLimitExceeded", "Request limit exceeded."),
    "hang": lambda fault, call: None,
    "lost": lambda fault, call: None,
    "stale": lambda fault, call: None,
    "late": lambda fault, call: None,
}


class Faults:
    """All faults that are set; each call meets at most one."""

    def __init__(self):
        self.lock = threading.Lock()
        self.list = []

    def add(self, wish):
        fault = Fault(wish)
        with self.lock:
            self.list.append(fault)

    def clear(self):
        with self.lock:
            for fault in self.list:
                fault.forgotten.set()
            self.list = []

    def meets(self, call):
        with self.lock:
            faults = list(self.list)
        for fault in faults:
            if fault.strikes(call):
                return fault
        return None
