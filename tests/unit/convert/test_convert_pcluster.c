// SPDX-License-Identifier: Apache-2.0
// Configurations of ParallelCluster: which settings and remarks come of them.
#include "tests/unit/convert/imported.h"

#define HEAD        "Region: eu-west-1\nImage: {Os: ubuntu2204}\n"
#define QUEUE(text) HEAD "Scheduling:\n  Scheduler: slurm\n  SlurmQueues:\n    - Name: gpu\n" text

static const char *list(const char *key) {
    struct strbuf out = {0};
    const struct toml *v = toml_get(root, key);
    for (const struct toml *c = v ? v->child : NULL; c; c = c->next)
        strbuf_addf(&out, "%s%s", out.len ? "|" : "", c->str);
    const char *text = arena_strdup(&a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return text;
}

static void read_queue(const char *text) {
    if (!import("pcluster", text))
        bail_out("%s", e.text);
}

static void test_whole(void) {
    read_queue(QUEUE("      CapacityType: SPOT\n"
                     "      ComputeResources:\n"
                     "        - Name: a\n"
                     "          InstanceType: p4d.24xlarge\n"
                     "          MinCount: 2\n"
                     "          MaxCount: 4\n"
                     "          Efa: {Enabled: true}\n"
                     "      Networking:\n"
                     "        SubnetIds: [subnet-0123456789abcdef1, subnet-0123456789abcdef2]\n"
                     "        AssignPublicIp: true\n"
                     "        PlacementGroup: {Enabled: true}\n"
                     "      Iam:\n"
                     "        InstanceProfile: arn:aws:iam::1:instance-profile/deep/train\n"
                     "        S3Access:\n"
                     "          - {BucketName: data, KeyName: 'sets/*'}\n"
                     "          - {BucketName: other}\n"));
    static const char *const values[][2] = {{"cluster.provider", "aws"},
                                            {"cluster.name", "gpu"},
                                            {"aws.region", "eu-west-1"},
                                            {"aws.ssh_user", "ubuntu"},
                                            {"aws.instance_type", "p4d.24xlarge"},
                                            {"cluster.nodes", "2"},
                                            {"aws.efa", "auto"},
                                            {"aws.subnet", "subnet-0123456789abcdef1"},
                                            {"aws.public_address", "auto"},
                                            {"aws.placement_group", "on"},
                                            {"aws.instance_profile", "train"},
                                            {"aws.s3", "s3://data/sets/"}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        is_str(value(values[i][0]), values[i][1], "%s is %s", values[i][0], values[i][1]);
    is_str(list("aws.fallback"), "spot", "the capacity is that of the queue");
    ok(noted("MaxCount", "up makes 2, for as long as the lease"), "nodes do not come and go");
    ok(noted("SubnetIds", "subnet-0123456789abcdef2 is left out: nodes share one subnet"),
       "one subnet is taken");
    ok(noted("S3Access", "left out: aws.s3 is one folder of one bucket"), "one bucket is taken");
}

static void test_other_values(void) {
    read_queue(QUEUE("      ComputeResources:\n"
                     "        - InstanceType: g5.xlarge\n"
                     "          Efa: {Enabled: false}\n"
                     "      Networking:\n"
                     "        AssignPublicIp: false\n"
                     "        PlacementGroup: {Enabled: false}\n"
                     "      Iam:\n"
                     "        InstanceProfile: train\n"));
    is_str(value("aws.efa"), "off", "EFA may be off");
    is_str(value("aws.public_address"), "none", "nodes may have no public address");
    is_str(value("aws.placement_group"), "off", "a placement group may be off");
    is_str(value("aws.instance_profile"), "train", "a profile may be a name");
    is_str(value("cluster.nodes"), "", "a queue without counts has no number of nodes");
}

static void test_counts(void) {
    static const struct {
        const char *counts, *nodes, *note;
    } cases[] = {{"MinCount: 3", "3", NULL},
                 {"MaxCount: 5", "5", "up makes 5,"},
                 {"MinCount: 0\n          MaxCount: 5", "5", "up makes 5,"},
                 {"MinCount: 0", "", NULL},
                 {"MinCount: 4\n          MaxCount: 4", "4", NULL},
                 {"MinCount: 1\n          MaxCount: 4", "1", "up makes 1,"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        read_queue(arena_printf(&a,
                                QUEUE("      ComputeResources:\n"
                                      "        - Name: a\n"
                                      "          %s\n"),
                                cases[i].counts));
        is_str(value("cluster.nodes"), cases[i].nodes, "counts %zu give the nodes", i);
        is_int(noted("MaxCount", "nodes do not come and go"), cases[i].note != NULL,
               "counts %zu have a remark if they differ", i);
        if (cases[i].note)
            ok(noted("MaxCount", cases[i].note), "the remark of counts %zu has the number", i);
    }
}

static void test_one_of_each(void) {
    read_queue(QUEUE("      ComputeResources:\n"
                     "        - Name: a\n"
                     "          Instances:\n"
                     "            - InstanceType: g5.xlarge\n"
                     "            - InstanceType: g6.xlarge\n"
                     "        - Name: b\n"
                     "          InstanceType: p5.48xlarge\n"
                     "    - Name: cpu\n"
                     "      CapacityType: ONDEMAND\n"));
    is_str(value("aws.instance_type"), "g5.xlarge", "the first type is taken");
    ok(noted("InstanceType", "g6.xlarge is left out: nodes have one type"), "others are left out");
    ok(noted("ComputeResources", "compute resource 'b' is left out"), "one resource is taken");
    ok(noted("SlurmQueues", "queue 'cpu' is left out: all nodes of a cluster are alike"),
       "one queue is taken");
    is_str(list("aws.fallback"), "", "a queue that is left out has no settings");
}

static void test_capacity(void) {
    static const char *const cases[][2] = {{"ONDEMAND", "on-demand"},
                                           {"SPOT", "spot"},
                                           {"CAPACITY_BLOCK", "capacity-block"},
                                           {"OTHER", ""}};
    for (int i = 0; i < 4; i++) {
        read_queue(arena_printf(&a, QUEUE("      CapacityType: %s\n"), cases[i][0]));
        is_str(list("aws.fallback"), cases[i][1], "%s has its word", cases[i][0]);
        is_int(noted("CapacityType", "left out: set aws.fallback"), i == 3,
               "%s is known or left out", cases[i][0]);
    }
}

static void test_system(void) {
    read_queue("Image: {Os: alinux2}\nScheduling: {Scheduler: slurm}\n");
    is_str(value("aws.ssh_user"), "", "another system has no user");
    ok(noted("Os", "which is Ubuntu; for alinux2 set aws.image and aws.ssh_user"),
       "another system has a remark");
    read_queue("Scheduling:\n  SlurmSettings: {ScaledownIdletime: 15}\n");
    is_str(value("lease.idle"), "15m", "idle nodes have their minutes");
    read_queue("Scheduling:\n  SlurmSettings: {ScaledownIdletime: 0}\n");
    is_str(value("lease.idle"), "", "no idle time needs no setting");
    read_queue("Scheduling: {}\nTags:\n  - {Key: team, Value: vision}\n  - {Key: cost, Value: 7}\n"
               "  - {Key: bad}\n");
    const struct toml *tags = toml_get(root, "aws.tags");
    ok(tags && tags->child && strcmp(tags->child->str, "vision") == 0 &&
           strcmp(tags->child->next->str, "7") == 0 && !tags->child->next->next,
       "tags are texts");
    ok(noted("Tags", "left out: Key and Value are texts"), "a tag without a value is left out");
    read_queue("Scheduling: {}\nSharedStorage:\n  - {StorageType: FsxLustre, MountDir: /fsx}\n"
               "  - {Name: x}\n");
    ok(noted("SharedStorage", "FsxLustre at /fsx is left out"), "file systems are left out");
    ok(noted("SharedStorage", "shared storage at its folder is left out"),
       "a file system may have no kind");
}

static void test_buckets(void) {
    static const struct {
        const char *access, *want;
    } cases[] = {{"{BucketName: bbb}", "s3://bbb"},
                 {"{BucketName: bbb, KeyName: '*'}", "s3://bbb"},
                 {"{BucketName: bbb, KeyName: 'x/y*'}", "s3://bbb/x/y"},
                 {"{BucketName: bbb, EnableWriteAccess: true}", "s3://bbb"},
                 {"{BucketName: '*'}", ""},
                 {"{KeyName: x}", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        read_queue(arena_printf(&a, QUEUE("      Iam: {S3Access: [%s]}\n"), cases[i].access));
        is_str(value("aws.s3"), cases[i].want, "bucket %zu is its folder", i);
        is_int(noted("S3Access", "left out: aws.s3 is one folder"), !cases[i].want[0],
               "bucket %zu is taken or left out", i);
    }
}

static void test_other_files(void) {
    ok(!import("pcluster", "Region: eu-west-1\n"), "a file without Scheduling is refused");
    is_str(e.text, "line 1: this is no configuration of ParallelCluster 3: it has no Scheduling",
           "the error says so");
    ok(!import("pcluster", "a: [\n"), "a file that is not YAML is refused");
}

int main(void) {
    test_whole();
    test_other_values();
    test_counts();
    test_one_of_each();
    test_capacity();
    test_system();
    test_buckets();
    test_other_files();
    arena_fini(&a);
    return done_testing();
}
