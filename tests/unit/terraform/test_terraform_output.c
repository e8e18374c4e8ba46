// SPDX-License-Identifier: Apache-2.0
// Terraform's output: lines in the format of version 1.11, and its state.
#include "terraform/terraform_output.h"
#include "tests/tap.h"

static struct arena a;

static struct terraform_line parse(const char *text) {
    struct terraform_line l;
    terraform_line_parse(&a, text, strlen(text), &l);
    return l;
}

static void lines(void) {
    struct terraform_line l = parse(
        "{\"@level\":\"info\",\"@message\":\"m\",\"hook\":{\"resource\":{\"addr\":"
        "\"module.nodes.aws_instance.node[1]\",\"resource_type\":\"aws_instance\",\"resource_key\":"
        "1},"
        "\"action\":\"create\",\"id_key\":\"id\",\"id_value\":\"i-1\",\"elapsed_seconds\":12},"
        "\"type\":\"apply_complete\"}");
    is_int(l.kind, TERRAFORM_COMPLETE, "the event is apply_complete");
    is_str(l.address, "module.nodes.aws_instance.node[1]", "the address is read");
    is_str(l.type, "aws_instance", "the type is read");
    is_int(l.index, 1, "the index is read");
    is_str(l.id, "i-1", "the id is read");
    is_int(l.elapsed_s, 12, "the time is read");
    l = parse(
        "{\"type\":\"planned_change\",\"change\":{\"resource\":{\"addr\":\"x.y\",\"resource_key\":"
        "\"k\"},\"action\":\"replace\"}}");
    is_int(l.kind, TERRAFORM_PLANNED, "the event is planned_change");
    is_str(l.action, "replace", "the action is read");
    is_int(l.index, -1, "a key that is no number gives no index");
    l = parse("{\"type\":\"diagnostic\",\"diagnostic\":{\"severity\":\"error\",\"summary\":\"s\","
              "\"detail\":\"d\"}}");
    ok(l.is_error, "a diagnostic that is an error is marked");
    is_str(l.summary, "s", "the summary is read");
    is_str(l.detail, "d", "the detail is read");
    l = parse("{\"type\":\"change_summary\",\"changes\":{\"add\":2,\"change\":1,\"remove\":0,"
              "\"operation\":\"apply\"}}");
    is_int(l.add, 2, "additions are counted");
    is_str(l.operation, "apply", "the operation is read");
    l = parse("{\"type\":\"outputs\",\"outputs\":{\"n\":{\"sensitive\":false,\"value\":\"v\"}}}");
    const struct json *v = terraform_line_output(l.outputs, "n");
    ok(v && str_eq(v->str, "v"), "an output is read");
    ok(terraform_line_output(l.outputs, "m") == NULL, "an absent output is not found");
    is_int(parse("{\"type\":\"version\"}").kind, TERRAFORM_OTHER,
           "a line of another type is ignored");
    is_int(parse("Error: no").kind, TERRAFORM_TEXT, "a line of words is text");
    is_int(parse("{\"type\":").kind, TERRAFORM_TEXT, "half a line is plain text");
    is_int(parse("").kind, TERRAFORM_TEXT, "an empty line is text");
    is_int(parse("{\"type\":\"apply_start\",\"hook\":7}").kind, TERRAFORM_START,
           "a field of the wrong type is ignored");
    is_int(
        parse("{\"type\":\"apply_start\",\"hook\":{\"resource\":{\"resource_key\":99999999999}}}")
            .index,
        -1, "a malformed index is an error");
}

// The words of Terraform 1.11 and of AWS's provider 5.100.
static void missing(void) {
    const char *type = "", *id = "";
    struct terraform_line l = parse(
        "{\"type\":\"diagnostic\",\"diagnostic\":{\"severity\":\"error\",\"summary\":\"Cannot "
        "import non-existent remote object\",\"detail\":\"While attempting to import an "
        "existing object to \\\"aws_internet_gateway.found[\\\\\\\"igw-0a\\\\\\\"]\\\", the "
        "provider detected that no object exists with the given id.\"}}");
    ok(terraform_line_missing(&a, &l, &type, &id), "an object to import does not exist");
    is_str(type, "aws_internet_gateway", "the type of the object to import is found");
    is_str(id, "igw-0a", "the id of the object to import is found");
    l = parse(
        "{\"type\":\"diagnostic\",\"diagnostic\":{\"severity\":\"error\",\"summary\":\"reading "
        "EC2 Key Pair: no matching EC2 Key Pair found\",\"detail\":\"\",\"address\":"
        "\"data.aws_key_pair.found[\\\"key-0b\\\"]\"}}");
    ok(terraform_line_missing(&a, &l, &type, &id), "an object to read does not exist");
    is_str(type, "aws_key_pair", "the type of the object to read is found");
    is_str(id, "key-0b", "the id of the object to read is found");
    static const char *const others[] = {
        "{\"type\":\"diagnostic\",\"diagnostic\":{\"severity\":\"error\",\"summary\":\"s\","
        "\"address\":\"data.aws_vpc.found[\\\"vpc-1\\\"]\"}}",
        "{\"type\":\"diagnostic\",\"diagnostic\":{\"severity\":\"error\",\"summary\":\"Cannot "
        "import "
        "non-existent remote object\",\"detail\":\"no name\"}}",
        "{\"type\":\"diagnostic\",\"diagnostic\":{\"severity\":\"error\",\"summary\":\"Cannot "
        "import "
        "non-existent remote object\",\"detail\":\"\\\"aws_vpc.found[\"}}",
        "{\"type\":\"diagnostic\",\"diagnostic\":{\"severity\":\"error\",\"summary\":\"no matching "
        "x\",\"address\":\"data.\"}}",
        "Cannot import non-existent remote object"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        l = parse(others[i]);
        ok(!terraform_line_missing(&a, &l, &type, &id),
           "another error or a truncated one is no missing object (%zu)", i);
    }
}

static void states(void) {
    static const char text[] = "{\"version\":4,\"outputs\":{},\"resources\":[{\"module\":\"module."
                               "nodes\",\"mode\":\"managed\","
                               "\"type\":\"aws_instance\",\"name\":\"node\",\"instances\":[{"
                               "\"index_key\":0,\"attributes\":"
                               "{\"id\":\"i-0\"}},{\"index_key\":1,\"status\":\"tainted\","
                               "\"attributes\":{\"id\":\"i-1\"}}]},"
                               "{\"mode\":\"data\",\"type\":\"aws_vpc\",\"name\":\"x\","
                               "\"instances\":[{\"index_key\":\"k\","
                               "\"attributes\":null}]}]}";
    struct terraform_state s;
    struct err e = {0};
    is_int(terraform_state_parse(&a, text, sizeof text - 1, &s, &e), 0, "the state is read: %s",
           e.text);
    is_uint(s.count, 3, "all resources are listed");
    is_uint(s.managed_count, 2, "two resources are managed");
    is_str(s.resources[1].id, "i-1", "the id of a resource is read");
    ok(s.resources[1].tainted && !s.resources[0].tainted, "a tainted resource is marked");
    is_str(s.resources[0].module, "module.nodes", "the module of a resource is read");
    is_str(s.resources[2].key, "k", "the key of a resource is read");
    is_str(terraform_state_address(&a, &s.resources[1]), "module.nodes.aws_instance.node[1]",
           "one of several resources has its address");
    is_str(terraform_state_address(&a, &s.resources[2]), "aws_vpc.x[\"k\"]",
           "a resource with a key has its address");
    is_str(s.resources[2].id, "", "a resource without attributes has no id");
    is_int(terraform_state_parse(&a, "\n", 1, &s, &e), 0, "an empty state is accepted");
    is_uint(s.count, 0, "a missing state is an empty one");
    is_int(terraform_state_parse(&a, "{\"version\":3}", 13, &s, &e), -1,
           "another format is refused");
    has_str(e.text, "reads 4", "the error has the format that is read");
    is_int(terraform_state_parse(&a, "{", 1, &s, &e), -1, "half a state is refused");
    is_int(terraform_state_parse(&a, "{\"version\":4,\"resources\":7}", 27, &s, &e), 0,
           "resources of a wrong shape are none");
}

static void locks(void) {
    struct terraform_lock l;
    ok(terraform_lock_parse(&a,
                            "Error message: operation error S3: PutObject, https response error "
                            "StatusCode: 412, api error PreconditionFailed: At least one\n"
                            "Lock Info:\n  ID:        9db590f1-b6fe-c5f2-2678-8804f089deba\n"
                            "  Path:      team-state/gpu/both/terraform.tfstate\n"
                            "  Operation: OperationTypeApply\n  Who:       ann@laptop\n"
                            "  Version:   1.11.4\n"
                            "  Created:   2026-01-02 03:04:05.678901234 +0000 UTC\n  Info:      \n"
                            "\n\nTerraform acquires a state lock to protect the state",
                            &l),
       "an error that quotes a lock is understood");
    is_str(l.id, "9db590f1-b6fe-c5f2-2678-8804f089deba", "the id of the lock is read");
    is_str(l.who, "ann@laptop", "the owner of the lock is read");
    is_str(l.operation, "apply", "the operation of the lock is read");
    is_int(l.since_ms, 1767323045000, "the time of the lock is read");
    ok(terraform_lock_parse(&a, "│ Lock Info:\n│   ID:        a1\n│   Who:       b@\033[1mc\r\n",
                            &l),
       "a lock in a drawn frame is read");
    is_str(l.id, "a1", "the id of a lock in a frame is read");
    ok(!strchr(l.who, 033), "control characters are removed from the owner");
    is_int(l.since_ms, 0, "a lock without a time has time 0");
    terraform_lock_parse(&a, "Lock Info:\n  ID: x; reboot\n", &l);
    is_str(l.id, "?", "an id that no Terraform makes is not repeated");
    terraform_lock_parse(&a, "Lock Info:\n  ID: -f\n", &l);
    is_str(l.id, "?", "an id that begins with a hyphen is not repeated");
    ok(!terraform_lock_parse(&a, "Lock Info:\n  Who: a@b\n", &l),
       "a lock without an id is refused");
    ok(!terraform_lock_parse(&a, "ID: x\nWho: y\n", &l), "a lock without its heading is refused");
    is_str(l.id, "", "a refused lock has an empty id");
}

int main(void) {
    lines();
    missing();
    states();
    locks();
    arena_fini(&a);
    return done_testing();
}
