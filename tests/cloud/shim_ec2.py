# SPDX-License-Identifier: Apache-2.0
"""shim_ec2.py: the parts of EC2 and SSM that moto lacks.

Placement groups and their tags; the spot fields of instances and spot requests; security groups,
placement and capacity reservation of instances; iops and throughput of volumes; console output;
idempotency by client token; the image behind public SSM parameters; public addresses out of
203.0.113.0/24, which exists inside the test's namespaces, instead of moto's, which belong to
somebody.
"""

import base64
import itertools
import re
import time
import xml.etree.ElementTree as ET

from shim_instance import Instance
from shim_xml import NS, Refused, answer, filters, members, parse, put, tag_set, tags_of

PUBLIC_NET = "203.0.113."
PUBLIC_TAG = re.compile(rb"<(publicIp|ipAddress)>(\d+\.\d+\.\d+\.\d+)</\1>")
PUBLIC_NAME = re.compile(rb"<(publicDnsName|dnsName)>[^<]*</\1>")
ENDING_SECONDS = 3  # an instance is shutting down for some time, of GPUs for minutes
IMAGE_PARAMETER = re.compile(r"/aws/service/(deeplearning|canonical)/.*ami-id")


class Ec2:
    """The extra actions, and the patches of answers that moto gives incompletely."""

    def __init__(self, cloud):
        self.cloud = cloud
        self.instances, self.groups, self.by_token = {}, {}, {}
        self.public = {}  # moto's address -> ours
        self.zones, self.vcpus = {}, {}
        self.templates = {}  # of a launch, by id: parameters of its interfaces
        self.interface_kinds, self.holders = {}, {}  # of an interface; of an attachment
        self.descriptions = {}  # of rules of security groups
        self.serial = itertools.count(1)
        self.ending_seconds = ENDING_SECONDS

    def handle(self, call):
        """(status, headers, body, code) for a call."""
        if call.service == "ssm":
            return self.ssm(call)
        own = getattr(self, "do_" + call.action, None) if call.service == "ec2" else None
        if own is not None:
            return own(call)
        return self.pass_on(call)

    def pass_on(self, call, patch=None):
        self.ask_with_moto_addresses(call)
        status, headers, body = call.forward(call.params or None)
        code = ""
        if status >= 400:
            found = re.search(rb"<Code>([^<]+)", body)
            code = found.group(1).decode() if found else "error"
        elif call.service == "ec2":
            if patch is not None:
                root = parse(body)
                patch(root)
                root.set("xmlns", NS)
                body = ET.tostring(root, xml_declaration=True, encoding="utf-8")
            body = self.hide_moto_addresses(body)
        return status, headers, body, code

    # ---- addresses -----------------------------------------------------------------------------
    def public_of(self, moto_address):
        with self.cloud.lock:
            if moto_address not in self.public:
                self.public[moto_address] = PUBLIC_NET + str(len(self.public) + 1)
            return self.public[moto_address]

    def hide_moto_addresses(self, body):
        def ours(match):
            address = self.public_of(match.group(2).decode()).encode()
            return b"<%s>%s</%s>" % (match.group(1), address, match.group(1))
        return PUBLIC_NAME.sub(rb"<\1></\1>", PUBLIC_TAG.sub(ours, body))

    def ask_with_moto_addresses(self, call):
        if not any(value.startswith(PUBLIC_NET) for value in call.params.values()):
            return
        back = {ours: moto for moto, ours in list(self.public.items())}
        call.params = {k: back.get(v, v) for k, v in call.params.items()}

    # ---- what a RunInstances call wants --------------------------------------------------------
    def zone_of(self, call):
        self.expand_template(call)
        subnet = call.params.get("SubnetId") or call.params.get("NetworkInterface.1.SubnetId")
        if not subnet and "NetworkInterface.1.NetworkInterfaceId" in call.params:
            body = call.ask("DescribeNetworkInterfaces", **{
                "NetworkInterfaceId.1": call.params["NetworkInterface.1.NetworkInterfaceId"]})
            subnet = parse(body).findtext(".//subnetId")
        if subnet and subnet not in self.zones:
            body = call.ask("DescribeSubnets", **{"SubnetId.1": subnet})
            self.zones[subnet] = parse(body).findtext(".//availabilityZone")
        zone = self.zones.get(subnet) or call.params.get("Placement.AvailabilityZone")
        return zone or call.region + "a"

    @staticmethod
    def market_of(call):
        return "spot" if call.params.get("InstanceMarketOptions.MarketType") == "spot" \
            else "on-demand"

    def vcpus_of(self, call):
        kind = call.params.get("InstanceType", "m1.small")
        if kind not in self.vcpus:
            body = call.ask("DescribeInstanceTypes", **{"InstanceType.1": kind})
            self.vcpus[kind] = int(parse(body).findtext(".//defaultVCpus") or 1)
        return self.vcpus[kind]

    def vcpus_running(self, call):
        body = call.ask("DescribeInstances", **{
            "Filter.1.Name": "instance-state-name", "Filter.1.Value.1": "running"})
        used = 0
        for item in parse(body).iter("item"):
            instance = self.instances.get(item.findtext("instanceId"))
            if instance is not None and instance.spot == (self.market_of(call) == "spot"):
                used += self.vcpus.get(instance.params.get("InstanceType"), 1)
        return used

    def check_run(self, call, zone):
        """What EC2 refuses and moto lets pass."""
        p = call.params
        nics = members(p, "NetworkInterface")
        if len(nics) > 1 and any(n.get("AssociatePublicIpAddress") == "true" for n in nics):
            raise Refused("InvalidParameterCombination",
                          "The associatePublicIPAddress parameter cannot be specified when "
                          "launching with multiple network interfaces.")
        group = p.get("Placement.GroupName")
        if group and (call.region, group) not in self.groups:
            raise Refused("InvalidPlacementGroup.Unknown",
                          f"The Placement Group '{group}' is unknown.")
        elsewhere = [i for i in list(self.instances.values()) if group and i.group == group
                     and not i.is_gone() and i.zone != zone and i.region == call.region]
        if elsewhere:
            raise Refused("InvalidPlacementGroup.InUse",
                          f"The placement group {group} has instances in another zone.")
        for wish in [p, *nics]:
            self.check_address(call, wish.get("SubnetId", ""), wish.get("PrivateIpAddress"))
        if len(base64.b64decode(p.get("UserData", ""))) > 16384:
            raise Refused("InvalidParameterValue", "User data is limited to 16384 bytes")

    def check_address(self, call, subnet, address):
        """moto gives the same address to two."""
        taken = [i for i in list(self.instances.values()) if i.private_ip == address
                 and i.subnet == subnet and i.region == call.region and not i.is_gone()]
        if address and taken:
            raise Refused("InvalidIPAddress.InUse", f"Address {address} is in use.")

    def do_CreateLaunchTemplate(self, call):
        def remember(root):
            prefix = "LaunchTemplateData."
            for one in root.iter("launchTemplateId"):
                self.templates[one.text] = {
                    k.removeprefix(prefix): v for k, v in call.params.items()
                    if k.startswith(prefix + "NetworkInterface.")}
        return self.pass_on(call, remember)

    def do_DescribeLaunchTemplateVersions(self, call):
        """The tags of a template are none of its launches, as moto has it."""
        def patch(root):
            for data in root.iter("launchTemplateData"):
                for tags in data.findall("tagSpecificationSet"):
                    data.remove(tags)
        return self.pass_on(call, patch)

    do_CreateLaunchTemplateVersion = do_CreateLaunchTemplate  # a launch takes the newest version

    def expand_template(self, call):
        """moto leaves out the interfaces of a launch template."""
        nics = self.templates.get(call.params.get("LaunchTemplate.LaunchTemplateId"), {})
        for other in ("SubnetId", "PrivateIpAddress", "SecurityGroupId.1"):
            if nics and other in call.params:
                raise Refused("InvalidParameterCombination",
                              "Network interfaces and an instance-level subnet ID, private IP or "
                              "security group may not be specified on the same request")
        call.params |= nics

    def do_RunInstances(self, call):
        token = call.params.get("ClientToken")
        if token and token in self.by_token:
            return self.by_token[token]
        zone = self.zone_of(call)
        self.check_run(call, zone)
        if "NetworkInterface.1.SubnetId" in call.params:
            # Interfaces of a launch are removed with the instance, and their addresses become free.
            call.params.setdefault("NetworkInterface.1.DeleteOnTermination", "true")
        self.vcpus_of(call)
        started = []

        def patch(root):
            for item in root.find("instancesSet"):
                instance = Instance(call, zone)
                instance.private_ip = item.findtext("privateIpAddress")
                instance.subnet = item.findtext("subnetId")
                if instance.spot:
                    instance.spot_id = f"sir-{next(self.serial):08x}"
                with self.cloud.lock:
                    self.instances[item.findtext("instanceId")] = instance
                started.append(item)
            self.patch_instances(root)

        done = self.pass_on(call, patch)
        for item in started:
            if call.late_failure:
                self.cloud.ended(item.findtext("instanceId"), call.late_failure)
            else:
                self.cloud.tell_lab("/start", self.birth(call, item))
        if token and done[0] == 200:
            self.by_token[token] = done
        return done

    def birth(self, call, item):
        """What the lab must know of a new instance."""
        p, text = call.params, item.findtext
        public_key = ""
        if p.get("KeyName"):
            body = call.ask("DescribeKeyPairs", IncludePublicKey="true",
                            **{"KeyName.1": p["KeyName"]})
            public_key = parse(body).findtext(".//publicKey") or ""
        address = text("ipAddress") or ""
        nic = item.find("networkInterfaceSet/item")
        return {
            "id": text("instanceId"), "region": call.region, "zone": self.zone_of(call),
            "type": text("instanceType"), "image": text("imageId"),
            "private_ip": text("privateIpAddress"),
            "public_ip": self.public_of(address) if address else "",
            "mac": nic.findtext("macAddress") if nic is not None else "",
            "life_cycle": self.market_of(call), "user_data": p.get("UserData", ""),
            "on_shutdown": p.get("InstanceInitiatedShutdownBehavior", "stop"),
            "tags": tags_of(p, "instance"), "public_key": public_key,
            "profile": p.get("IamInstanceProfile.Name") or p.get("IamInstanceProfile.Arn", ""),
            "metadata": {"tokens": p.get("MetadataOptions.HttpTokens", "optional"),
                         "endpoint": p.get("MetadataOptions.HttpEndpoint", "enabled"),
                         "tags": p.get("MetadataOptions.InstanceMetadataTags", "disabled")}}

    # ---- instances -----------------------------------------------------------------------------
    def patch_instances(self, root):
        for item in root.iter("item"):
            with self.cloud.lock:
                instance = self.instances.get(item.findtext("instanceId"))
            if instance is None or item.find("instanceState") is None:
                continue
            if instance.spot:
                put(item, "instanceLifecycle", "spot")
                put(item, "spotInstanceRequestId", instance.spot_id)
            put(item.find("placement"), "availabilityZone", instance.zone)
            if instance.group:
                put(item.find("placement"), "groupName", instance.group)
            if instance.reservation:
                put(item, "capacityReservationId", instance.reservation)
                target = put(put(item, "capacityReservationSpecification", None),
                             "capacityReservationTarget", None)
                put(target, "capacityReservationId", instance.reservation)
            if instance.is_ending():
                put(item.find("instanceState"), "code", "32")
                put(item.find("instanceState"), "name", "shutting-down")
            code = {"spot": "Server.SpotInstanceTermination", "host": "Server.InternalError"}.get(
                instance.end_reason, instance.end_reason)
            if "." in code:
                reason = put(item, "stateReason", None)
                put(reason, "code", code)
                put(reason, "message", code + ": AWS has ended the instance")
            self.patch_groups(item)

    @staticmethod
    def patch_groups(item):
        """Groups that were given with an interface are those of the instance, too."""
        own, nic = item.find("groupSet"), item.find(".//networkInterfaceSet/item")
        theirs = nic.find("groupSet") if nic is not None else None
        if theirs is None or (own is not None and len(own)):
            return
        if own is None:
            own = ET.SubElement(item, "groupSet")
        own.extend(theirs)

    def do_DescribeInstances(self, call):
        """To moto what is shutting down has ended already."""
        wanted = filters(call.params).get("instance-state-name", [])
        also = {"shutting-down": "terminated", "terminated": "shutting-down"}
        more = {also[name] for name in wanted if name in also} - set(wanted)
        if more:
            at = next(k for k, v in call.params.items() if v == "instance-state-name")
            prefix = at.removesuffix("Name") + "Value."
            call.params |= {f"{prefix}{len(wanted) + i}": name
                            for i, name in enumerate(sorted(more), 1)}

        def patch(root):
            self.patch_instances(root)
            for around in root.iter("instancesSet"):
                for item in list(around):
                    if wanted and item.findtext("instanceState/name") not in wanted:
                        around.remove(item)
        return self.pass_on(call, patch)

    def do_TerminateInstances(self, call):
        """moto refuses a second time, where the interface went with the instance."""
        ids = members(call.params, "InstanceId")
        if ids and all(one in self.instances and self.instances[one].end_reason for one in ids):
            items = "".join(f"<item><instanceId>{one}</instanceId></item>" for one in ids)
            return answer(call.action, f"<instancesSet>{items}</instancesSet>")
        done = self.pass_on(call)
        if done[0] == 200:
            for one in ids:
                if one in self.instances:
                    self.instances[one].end("api", self.ending_seconds)
            self.cloud.tell_lab("/end", {"ids": ids})
        return done

    def do_RebootInstances(self, call):
        done = self.pass_on(call)
        if done[0] == 200:
            self.cloud.tell_lab("/reboot", {"ids": members(call.params, "InstanceId")})
        return done

    def do_AssociateAddress(self, call):
        """An address may be given to an instance or to one of its interfaces."""
        done = self.pass_on(call)
        if done[0] != 200:
            return done
        for item in parse(call.ask("DescribeAddresses")).iter("item"):
            for one, instance in list(self.instances.items()):
                if (item.findtext("instanceId") == one
                        or item.findtext("privateIpAddress") == instance.private_ip
                        and instance.region == call.region and not instance.end_reason):
                    self.cloud.tell_lab("/address", {
                        "id": one, "public_ip": self.public_of(item.findtext("publicIp"))})
        return done

    def do_GetConsoleOutput(self, call):
        one = call.params.get("InstanceId", "")
        if one not in self.instances:
            raise Refused("InvalidInstanceID.NotFound", f"The instance ID '{one}' does not exist")
        text = self.cloud.tell_lab("/console", {"id": one})["text"].encode()[-65536:]
        return answer("GetConsoleOutput", (
            f"<instanceId>{one}</instanceId><timestamp>{now()}</timestamp>"
            f"<output>{base64.b64encode(text).decode()}</output>"))

    def do_DescribeKeyPairs(self, call):
        """By id, too, which moto takes as a filter only."""
        ids = members(call.params, "KeyPairId")
        by_id = f"Filter.{len(filters(call.params)) + 1}"
        for i, one in enumerate(ids, 1):
            call.params |= {by_id + ".Name": "key-pair-id", f"{by_id}.Value.{i}": one}
        done = self.pass_on(call)
        if ids and b"<keyPairId>" not in done[2]:
            raise Refused("InvalidKeyPair.NotFound", f"The key pair '{ids[0]}' does not exist")
        return done

    def do_DescribeVolumes(self, call):
        def patch(root):
            for item in root.iterfind("volumeSet/item"):
                one = item.findtext("attachmentSet/item/instanceId")
                instance = self.instances.get(one)
                mapping = members(instance.params, "BlockDeviceMapping") if instance else []
                for field in ("Iops", "Throughput"):
                    value = mapping[0].get("Ebs." + field) if mapping else None
                    if value:
                        put(item, field.lower(), value)
        return self.pass_on(call, patch)

    # ---- security groups -----------------------------------------------------------------------
    def do_AuthorizeSecurityGroupIngress(self, call):
        """moto forgets what a rule for a group or for a list of prefixes says that it is for."""
        for kind in ("Groups", "PrefixListIds"):
            said = call.params.get(f"IpPermissions.1.{kind}.1.Description")

            def remember(root, said=said):
                self.descriptions |= {rule.text: said
                                      for rule in root.iter("securityGroupRuleId")}
            if said:
                return self.pass_on(call, remember)
        return self.pass_on(call)

    do_AuthorizeSecurityGroupEgress = do_AuthorizeSecurityGroupIngress

    def do_DescribeSecurityGroupRules(self, call):
        def patch(root):
            for item in root.iter("item"):
                said = self.descriptions.get(item.findtext("securityGroupRuleId"))
                if said:
                    put(item, "description", said)
        return self.pass_on(call, patch)

    # ---- network interfaces --------------------------------------------------------------------
    def patch_interfaces(self, root):
        """EFAs say what they are; an interface that outlives its instance is free again."""
        for item in [*root.iter("networkInterface"), *root.iter("item")]:
            one = item.findtext("networkInterfaceId")
            if one is None or item.find("status") is None:
                continue
            if self.interface_kinds.get(one):
                put(item, "interfaceType", self.interface_kinds[one])
            self.holders[item.findtext("attachment/attachmentId")] = \
                item.findtext("attachment/instanceId")
            holder = self.instances.get(item.findtext("attachment/instanceId"))
            if holder is not None and holder.is_gone():
                item.remove(item.find("attachment"))
                put(item, "status", "available")

    def do_CreateNetworkInterface(self, call):
        def patch(root):
            one = root.findtext("networkInterface/networkInterfaceId")
            self.interface_kinds[one] = call.params.get("InterfaceType", "")
            self.patch_interfaces(root)
        return self.pass_on(call, patch)

    def do_DescribeNetworkInterfaces(self, call):
        return self.pass_on(call, self.patch_interfaces)

    def do_DetachNetworkInterface(self, call):
        attachment = call.params.get("AttachmentId", "")
        holder = self.instances.get(self.holders.get(attachment))
        if holder is not None and holder.is_gone():
            raise Refused("InvalidAttachmentID.NotFound",
                          f"The attachment ID '{attachment}' does not exist")
        return self.pass_on(call, self.patch_interfaces)

    # ---- spot requests -------------------------------------------------------------------------
    def spot_requests(self, call):
        wanted = members(call.params, "SpotInstanceRequestId")
        by_instance = filters(call.params).get("instance-id", [])
        for one, instance in list(self.instances.items()):
            if (instance.spot and instance.region == call.region
                    and (not wanted or instance.spot_id in wanted)
                    and (not by_instance or one in by_instance)):
                yield one, instance

    def do_DescribeSpotInstanceRequests(self, call):
        items = ""
        for one, instance in self.spot_requests(call):
            code = {"spot": "instance-terminated-no-capacity", "": "fulfilled"}.get(
                instance.end_reason, "instance-terminated-by-user")
            p = instance.params
            price = p.get("InstanceMarketOptions.SpotOptions.MaxPrice", "1.000000")
            items += (
                f"<item><spotInstanceRequestId>{instance.spot_id}</spotInstanceRequestId>"
                f"<spotPrice>{price}</spotPrice><type>one-time</type>"
                f"<state>{'closed' if instance.end_reason else 'active'}</state>"
                f"<status><code>{code}</code><message>{code}</message>"
                f"<updateTime>{now()}</updateTime></status><instanceId>{one}</instanceId>"
                "<instanceInterruptionBehavior>"
                + p.get("InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior",
                        "terminate") + "</instanceInterruptionBehavior>"
                + tag_set(tags_of(p, "spot-instances-request")) + "</item>")
        return answer(call.action, f"<spotInstanceRequestSet>{items}</spotInstanceRequestSet>")

    def do_CancelSpotInstanceRequests(self, call):
        items = "".join(
            f"<item><spotInstanceRequestId>{i.spot_id}</spotInstanceRequestId>"
            "<state>cancelled</state></item>" for _, i in self.spot_requests(call))
        return answer(call.action, f"<spotInstanceRequestSet>{items}</spotInstanceRequestSet>")

    # ---- placement groups ----------------------------------------------------------------------
    def do_CreatePlacementGroup(self, call):
        key = (call.region, call.params["GroupName"])
        if key in self.groups:
            raise Refused("InvalidPlacementGroup.Duplicate",
                          f"The Placement Group '{key[1]}' already exists.")
        self.groups[key] = {"id": f"pg-{next(self.serial):017x}",
                            "strategy": call.params.get("Strategy", "cluster"),
                            "tags": tags_of(call.params, "placement-group")}
        return answer(call.action, self.group_xml("placementGroup", key))

    def group_xml(self, element, key):
        group = self.groups[key]
        return (f"<{element}><groupName>{key[1]}</groupName><groupId>{group['id']}</groupId>"
                f"<state>available</state><strategy>{group['strategy']}</strategy>"
                f"<groupArn>arn:aws:ec2:{key[0]}:123456789012:placement-group/{key[1]}</groupArn>"
                f"{tag_set(group['tags'])}</{element}>")

    def do_DescribePlacementGroups(self, call):
        names = members(call.params, "GroupName")
        ids = members(call.params, "GroupId")
        keys = [k for k in self.groups if k[0] == call.region and (not names or k[1] in names)
                and (not ids or self.groups[k]["id"] in ids) and self.group_matches(k, call)]
        if names and not keys:
            raise Refused("InvalidPlacementGroup.Unknown",
                          f"The Placement Group '{names[0]}' is unknown.")
        inner = "".join(self.group_xml("item", k) for k in keys)
        return answer(call.action, f"<placementGroupSet>{inner}</placementGroupSet>")

    def group_matches(self, key, call):
        tags = self.groups[key]["tags"]
        for name, values in filters(call.params).items():
            has = {tags.get(name[4:])} if name.startswith("tag:") else \
                set(tags) if name == "tag-key" else {key[1]}
            if not has & set(values):
                return False
        return True

    def do_DeletePlacementGroup(self, call):
        key = (call.region, call.params["GroupName"])
        if any(i.group == key[1] and i.region == key[0] and not i.is_gone()
               for i in list(self.instances.values())):
            raise Refused("InvalidPlacementGroup.InUse",
                          f"The placement group {key[1]} is in use and may not be deleted.")
        if self.groups.pop(key, None) is None:
            raise Refused("InvalidPlacementGroup.Unknown",
                          f"The Placement Group '{key[1]}' is unknown.")
        return answer(call.action, "<return>true</return>")

    # ---- tags ----------------------------------------------------------------------------------
    def do_CreateTags(self, call):
        return self.change_tags(call, self.set_tag)

    def do_DeleteTags(self, call):
        return self.change_tags(call, self.drop_tag)

    @staticmethod
    def set_tag(tags, wish):
        tags[wish["Key"]] = wish.get("Value", "")

    @staticmethod
    def drop_tag(tags, wish):
        """Whatever its value is, or only if it is the one that is given."""
        if wish.get("Value") in (None, tags.get(wish["Key"])):
            tags.pop(wish["Key"], None)

    def change_tags(self, call, change):
        """Of placement groups here, of all else in moto; an id that is unknown changes nothing."""
        ids = members(call.params, "ResourceId")
        known = {g["id"]: g["tags"] for k, g in list(self.groups.items()) if k[0] == call.region}
        ours = [one for one in ids if one.startswith("pg-")]
        for one in ours:
            if one not in known:
                raise Refused("InvalidPlacementGroup.Unknown",
                              f"The placement group ID '{one}' does not exist")
        if len(ours) < len(ids) or not ids:
            theirs = [one for one in ids if one not in ours]
            call.params = {k: v for k, v in call.params.items() if not k.startswith("ResourceId.")}
            call.params |= {f"ResourceId.{i}": one for i, one in enumerate(theirs, 1)}
            done = self.pass_on(call)
            if done[0] != 200:
                return done
        with self.cloud.lock:
            for one in ours:
                for wish in members(call.params, "Tag"):
                    change(known[one], wish)
        return answer(call.action, "<return>true</return>")

    # ---- SSM -----------------------------------------------------------------------------------
    def ssm(self, call):
        """Public image parameters of the kinds moto does not know: an image that moto has."""
        import json
        name = json.loads(call.body or b"{}").get("Name", "")
        if call.action != "GetParameter" or not IMAGE_PARAMETER.fullmatch(name):
            return self.pass_on(call)
        other = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
        call.body = json.dumps({"Name": other}).encode()
        status, headers, body, code = self.pass_on(call)
        return status, headers, body.replace(other.encode(), name.encode()), code


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
