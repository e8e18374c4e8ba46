#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""policy.py POLICY…: refuses what a policy for people should not say.
policy.py --calls CALLS.jsonl POLICY…: names the API actions in a log of the test cloud that no
statement allows.
"""

import json
import sys

LOOKS = ("Describe", "Get", "List")
SERVICES = {"tagging": "tag"}  # where the name in a signature is not that in a policy
BYTES_MAX = 6144  # IAM's limit for a managed policy, without white space


def as_list(value):
    return value if isinstance(value, list) else [value]


def load(path):
    with open(path, encoding="utf-8") as file:
        policy = json.load(file)
    size = len(json.dumps(policy, separators=(",", ":")))
    return policy["Statement"], [f"{path}: {size} bytes"] if size > BYTES_MAX else []


def review(statement):
    sid = statement["Sid"]
    unknown = set(statement) - {"Sid", "Effect", "Action", "Resource", "Condition"}
    if unknown or statement["Effect"] != "Allow":
        yield f"{sid}: not a plain permission"
    actions, resources = as_list(statement["Action"]), as_list(statement["Resource"])
    if actions != sorted(set(actions)):
        yield f"{sid}: actions out of order, or twice"
    for action in actions:
        if "*" in action:
            yield f"{sid}: wildcard action {action}"
        if action.split(":")[1].startswith(LOOKS):
            continue
        if "*" in resources:
            yield f"{sid}: {action} on everything"
        if any(r.endswith(":*/*") for r in resources) and "Condition" not in statement:
            yield f"{sid}: {action} on everything of a service"
        if action.split(":")[1].startswith(("Delete", "Terminate", "Release", "Revoke")) and \
                "Condition" not in statement and not all("/dtctl/" in r for r in resources):
            yield f"{sid}: {action} also on what is not dtctl's"


def main():
    args = sys.argv[1:]
    calls = set()
    if args[0] == "--calls":
        with open(args[1], encoding="utf-8") as log:
            for call in map(json.loads, log):
                service = SERVICES.get(call["service"], call["service"])
                calls.add(f"{service}:{call['action']}")
        if not calls:
            sys.exit(f"{args[1]}: no call in it")
        args = args[2:]
    statements, findings = [], []
    for path in args:
        more, bad = load(path)
        statements += more
        findings += bad
    allowed = {a for s in statements for a in as_list(s["Action"])}
    findings += [f"{call} is not allowed" for call in sorted(calls - allowed)]
    findings += [what for s in statements for what in review(s)]
    print(f"{len(allowed)} actions, {len(calls)} of them called")
    print("\n".join(findings), file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
