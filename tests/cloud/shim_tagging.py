# SPDX-License-Identifier: Apache-2.0
"""shim_tagging.py: the tagging API's GetResources, as far as moto's leaves things of EC2 out.

moto lists neither key pairs nor placement groups nor VPC endpoints. AWS lists them, and for a while
also what is gone already: the fault `stale` gives that (shim_faults.py).
"""

import json

from shim_xml import parse

ACCOUNT = "123456789012"
DELETING = ("DeleteKeyPair", "DeletePlacementGroup", "DeleteVpcEndpoints", "DeleteInternetGateway",
            "DeleteLaunchTemplate")
# kind: the action that lists them, the path of one, the child that names it
LISTS = {
    "key-pair": ("DescribeKeyPairs", ".//keySet/item", "keyPairId"),
    "launch-template": ("DescribeLaunchTemplates", ".//launchTemplates/item", "launchTemplateId"),
    "vpc-endpoint": ("DescribeVpcEndpoints", ".//vpcEndpointSet/item", "vpcEndpointId"),
    "internet-gateway": ("DescribeInternetGateways", ".//internetGatewaySet/item",
                         "internetGatewayId"),
}


def tags_of_item(item):
    return {t.findtext("key"): t.findtext("value") or "" for t in item.iterfind("tagSet/item")}


def listed(call, kind):
    """What is there of one kind: (id or name, tags)."""
    action, path, child = LISTS[kind]
    for item in parse(call.ask(action)).iterfind(path):
        if item.findtext("state") != "deleted":
            yield item.findtext(child), tags_of_item(item)


class Tagging:
    def __init__(self, ec2):
        self.ec2 = ec2
        self.gone = []  # (region, kind, id, tags) of what was there before a deletion

    def things(self, call):
        for kind in LISTS:
            for name, tags in listed(call, kind):
                yield call.region, kind, name, tags
        for (region, name), group in list(self.ec2.groups.items()):
            if region == call.region:
                yield region, "placement-group", name, group["tags"]

    def before(self, call):
        """Called before each action of EC2: remembers what will be gone."""
        if call.action in DELETING:
            self.gone += [thing for thing in self.things(call) if thing not in self.gone]

    def get_resources(self, call, stale):
        """moto's answer, and on its last page what it leaves out."""
        status, headers, body, code = self.ec2.pass_on(call)
        if status != 200:
            return status, headers, body, code
        wish, answer = json.loads(call.body or b"{}"), json.loads(body)
        if answer.get("PaginationToken"):
            return status, headers, body, code
        found = list(self.things(call))
        if stale:
            found += [t for t in self.gone if t not in found and t[0] == call.region]
        arns = {one["ResourceARN"] for one in answer["ResourceTagMappingList"]}
        for region, kind, name, tags in found:
            arn = f"arn:aws:ec2:{region}:{ACCOUNT}:{kind}/{name}"
            if tags and arn not in arns and wanted(wish, kind, tags):
                answer["ResourceTagMappingList"].append({
                    "ResourceARN": arn,
                    "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]})
        return status, headers, json.dumps(answer).encode(), code


def wanted(wish, kind, tags):
    """Filters: any of the types; every key, each with any of its values."""
    types = wish.get("ResourceTypeFilters")
    if types and not {"ec2", "ec2:" + kind} & set(types):
        return False
    return all(one["Key"] in tags and (not one.get("Values") or tags[one["Key"]] in one["Values"])
               for one in wish.get("TagFilters", []))
