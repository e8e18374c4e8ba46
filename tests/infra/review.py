#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""review.py PLANS: looks through planned resources for what a careful operator would refuse.

review.py --extract: from `terraform test -json -verbose` on standard input, one line for each plan:
its resources as [{"address", "type", "values"}].
"""

import ipaddress
import json
import sys


def extract():
    for line in sys.stdin:
        if not line.startswith("{") or '"test_plan"' not in line:
            continue
        message = json.loads(line)
        if message["type"] != "test_plan":
            continue
        print(json.dumps([
            {"address": c["address"], "type": c["type"], "values": c["change"]["after"]}
            for c in message["test_plan"]["resource_changes"]
            if c["mode"] == "managed" and c["change"]["after"]]))


def as_list(value):
    return value if isinstance(value, list) else [value]


# By these what is left over is found; everything that can have tags has them, whatever the provider
# adds.
WANTED = {"dtctl-cluster", "dtctl-owner", "dtctl-run", "Name"}


def tags(v):
    if "tags" in v and WANTED - set(v["tags"] or {}):
        yield "lacks tags"


def instance(v):
    for options in v["metadata_options"]:
        if options["http_tokens"] != "required":
            yield "answers IMDSv1"
        if options["http_put_response_hop_limit"] != 1:
            yield "metadata is more than one hop away"
    for disk in v["root_block_device"]:
        if not disk["encrypted"]:
            yield "the root volume is not encrypted"
        if not disk["delete_on_termination"]:
            yield "the root volume stays"
    if v["disable_api_termination"]:
        yield "cannot be ended"
    if v["instance_initiated_shutdown_behavior"] != "terminate":
        yield "poweroff does not end it"
    if WANTED - set(v["volume_tags"] or {}):
        yield "a volume lacks tags"


def egress(v):
    if not v["description"]:
        yield "says not what it is for"


def ingress(v):
    yield from egress(v)
    for cidr in filter(None, (v["cidr_ipv4"], v["cidr_ipv6"])):
        if ipaddress.ip_network(cidr).prefixlen < 8:
            yield f"is open to {cidr}"
        if (v["ip_protocol"], v["from_port"], v["to_port"]) != ("tcp", 22, 22):
            yield f"lets more than port 22 in from {cidr}"


def group(v):
    if v.get("ingress") or v.get("egress"):
        yield "has rules of its own"
    if not v["revoke_rules_on_delete"]:
        yield "cannot be deleted while a rule names it"


def policy(v, key="policy"):
    if not v.get(key):
        return
    for statement in as_list(json.loads(v[key])["Statement"]):
        if statement["Effect"] != "Allow" or "NotAction" in statement:
            yield "a statement that is not a plain permission"
        for action in as_list(statement["Action"]):
            if "*" in action:
                yield f"wildcard action {action}"
        for resource in as_list(statement.get("Resource", "none")):
            if resource.split(":::")[-1].startswith("*"):
                yield f"wildcard resource {resource}"


def role(v):
    yield from policy(v, "assume_role_policy")
    if not v["force_detach_policies"]:
        yield "cannot be deleted while a policy is attached"


REVIEW = {
    "aws_instance": instance,
    "aws_vpc_security_group_ingress_rule": ingress,
    "aws_vpc_security_group_egress_rule": egress,
    "aws_security_group": group,
    "aws_iam_role": role,
    "aws_iam_role_policy": policy,
    "aws_vpc_endpoint": policy,
}


def main():
    seen, findings = {}, []
    with open(sys.argv[1], encoding="utf-8") as plans:
        for plan in map(json.loads, plans):
            for r in plan:
                seen[r["type"]] = seen.get(r["type"], 0) + 1
                for what in (*tags(r["values"]), *REVIEW.get(r["type"], lambda v: [])(r["values"])):
                    findings.append(f"{r['address']} {what}")
    findings += [f"no {kind} among what was planned" for kind in REVIEW if kind not in seen]
    print(f"{sum(seen.values())} resources of {len(seen)} types")
    print("\n".join(findings), file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(extract() if sys.argv[1:] == ["--extract"] else main())
