# SPDX-License-Identifier: Apache-2.0
"""shim_xml.py: questions and answers of EC2's query protocol."""

import re
import xml.etree.ElementTree as ET

NS = "http://ec2.amazonaws.com/doc/2016-11-15/"


class Refused(Exception):
    def __init__(self, code, message, status=400):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def refusal(call, status, code, message):
    """An error answer in the shape of the service that was called."""
    if call.params.get("Action"):
        text = (f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error>"
                "</Errors><RequestID>00000000-0000-0000-0000-000000000000</RequestID></Response>")
        return status, {"Content-Type": "text/xml"}, text.encode(), code
    if call.service == "s3":
        text = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        return status, {"Content-Type": "application/xml"}, text.encode(), code
    text = f'{{"__type": "{code}", "message": "{message}"}}'
    return status, {"Content-Type": "application/x-amz-json-1.1"}, text.encode(), code


def answer(action, inner):
    text = (f'<{action}Response xmlns="{NS}"><requestId>0</requestId>{inner}</{action}Response>')
    return 200, {"Content-Type": "text/xml"}, text.encode(), ""


def parse(body):
    """The tree of an answer, without its namespace, so that paths are short."""
    return ET.fromstring(re.sub(rb' xmlns="[^"]*"', b"", body, count=1))


def members(params, prefix):
    """The values of prefix.1, prefix.2, … (or prefix.1.<field> as dictionaries), in order."""
    out = {}
    for key, value in params.items():
        match = re.fullmatch(re.escape(prefix) + r"\.(\d+)(?:\.(.+))?", key)
        if match and match.group(2) is None:
            out[int(match.group(1))] = value
        elif match:
            out.setdefault(int(match.group(1)), {})[match.group(2)] = value
    return [out[i] for i in sorted(out)]


def filters(params):
    """The filters of a Describe call: name -> list of values."""
    return {f["Name"]: [v for k, v in f.items() if k.startswith("Value.")]
            for f in members(params, "Filter")}


def tags_of(params, kind):
    """The tags that a call gives to resources of one kind: name -> value."""
    tags = {}
    for spec in members(params, "TagSpecification"):
        if spec.get("ResourceType") == kind:
            tags.update((t["Key"], t.get("Value", "")) for t in members(spec, "Tag"))
    return tags


def put(parent, tag, text):
    """Sets the child element `tag` of `parent`."""
    child = parent.find(tag)
    if child is None:
        child = ET.SubElement(parent, tag)
    child.text = text
    return child


def tag_set(tags):
    items = "".join(f"<item><key>{k}</key><value>{v}</value></item>" for k, v in tags.items())
    return f"<tagSet>{items}</tagSet>"
