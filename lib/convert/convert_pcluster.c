// SPDX-License-Identifier: Apache-2.0
// Clusters of AWS ParallelCluster 3: config.yaml. The first compute resource of the first queue
// becomes the nodes.
#include "convert/convert.h"
#include "convert/convert_yaml.h"

#include <string.h>

struct pcluster {
    bool queue_taken, resource_taken;
    struct convert_from min_from, max_from;
    const char *min, *max;
};

static const char *text_of(const struct convert_walk *w, const struct json *v) {
    const char *text = convert_field_text(w->draft->arena, v);
    return text ? text : "";
}

// ---- values -------------------------------------------------------------------------------------

// The default image of dtctl is Ubuntu, whatever the system was.
static enum convert_next take_os(struct convert_walk *w, const struct json *v) {
    const char *os = text_of(w, v);
    if (str_starts(os, "ubuntu")) {
        convert_field_set(w, "aws.ssh_user", "ubuntu");
        return CONVERT_DONE;
    }
    convert_draft_note(w->draft, w->from,
                       "nodes get AWS's base image with NVIDIA driver, which is Ubuntu; for %s set "
                       "aws.image and aws.ssh_user",
                       os);
    return CONVERT_DONE;
}

static const char *name_of(const struct json *v) {
    return json_get_str(v, "Name", "");
}

static enum convert_next take_queue(struct convert_walk *w, const struct json *v) {
    struct pcluster *c = w->state;
    if (c->queue_taken) {
        convert_draft_note(w->draft, w->from,
                           "queue '%s' is left out: all nodes of a cluster are alike; give it a "
                           "dtctl.toml of its own with another cluster.name",
                           name_of(v));
        return CONVERT_DONE;
    }
    c->queue_taken = true;
    return CONVERT_INSIDE;
}

static enum convert_next take_resource(struct convert_walk *w, const struct json *v) {
    struct pcluster *c = w->state;
    if (c->resource_taken) {
        convert_draft_note(w->draft, w->from,
                           "compute resource '%s' is left out: all nodes of a cluster are alike",
                           name_of(v));
        return CONVERT_DONE;
    }
    c->resource_taken = true;
    return CONVERT_INSIDE;
}

static enum convert_next take_type(struct convert_walk *w, const struct json *v) {
    if (convert_draft_has(w->draft, "aws.instance_type"))
        convert_draft_note(w->draft, w->from, "%s is left out: nodes have one type", text_of(w, v));
    else
        convert_field_set(w, "aws.instance_type", text_of(w, v));
    return CONVERT_DONE;
}

static enum convert_next take_min(struct convert_walk *w, const struct json *v) {
    struct pcluster *c = w->state;
    c->min = text_of(w, v);
    c->min_from = w->from;
    return CONVERT_DONE;
}

static enum convert_next take_max(struct convert_walk *w, const struct json *v) {
    struct pcluster *c = w->state;
    c->max = text_of(w, v);
    c->max_from = w->from;
    return CONVERT_DONE;
}

static enum convert_next take_capacity(struct convert_walk *w, const struct json *v) {
    static const char *const words[][2] = {
        {"ONDEMAND", "on-demand"}, {"SPOT", "spot"}, {"CAPACITY_BLOCK", "capacity-block"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text_of(w, v), words[i][0]) == 0)
            return convert_draft_add(w->draft, w->from, "aws.fallback", words[i][1]), CONVERT_DONE;
    convert_draft_note(w->draft, w->from, "left out: set aws.fallback");
    return CONVERT_DONE;
}

static enum convert_next take_efa(struct convert_walk *w, const struct json *v) {
    convert_field_set(w, "aws.efa", v->type == JSON_BOOL && v->boolean ? "auto" : "off");
    return CONVERT_DONE;
}

static enum convert_next take_group(struct convert_walk *w, const struct json *v) {
    convert_field_set(w, "aws.placement_group", v->type == JSON_BOOL && v->boolean ? "on" : "off");
    return CONVERT_DONE;
}

static enum convert_next take_address(struct convert_walk *w, const struct json *v) {
    convert_field_set(w, "aws.public_address",
                      v->type == JSON_BOOL && v->boolean ? "auto" : "none");
    return CONVERT_DONE;
}

static enum convert_next take_subnet(struct convert_walk *w, const struct json *v) {
    if (convert_draft_has(w->draft, "aws.subnet"))
        convert_draft_note(w->draft, w->from, "%s is left out: nodes share one subnet",
                           text_of(w, v));
    else
        convert_field_set(w, "aws.subnet", text_of(w, v));
    return CONVERT_DONE;
}

static enum convert_next take_idle(struct convert_walk *w, const struct json *v) {
    if (v->integer != 0)
        convert_field_set(w, "lease.idle", arena_printf(w->draft->arena, "%sm", text_of(w, v)));
    else
        convert_draft_needless(w->draft, w->from);
    return CONVERT_DONE;
}

static enum convert_next take_zone(struct convert_walk *w, const struct json *v) {
    convert_draft_add(w->draft, w->from, "aws.zones", text_of(w, v));
    return CONVERT_DONE;
}

static enum convert_next take_tag(struct convert_walk *w, const struct json *v) {
    const struct json *value = json_get(v, "Value");
    const char *key = json_get_str(v, "Key", NULL);
    static const char *const known[] = {"Key", "Value", NULL};
    convert_field_others(w, v, known);
    if (key && value && convert_field_text(w->draft->arena, value))
        convert_draft_pair(w->draft, w->from, "aws.tags", key, text_of(w, value));
    else
        convert_draft_note(w->draft, w->from, "left out: Key and Value are texts");
    return CONVERT_DONE;
}

static enum convert_next take_profile(struct convert_walk *w, const struct json *v) {
    const char *text = text_of(w, v), *slash = strrchr(text, '/');
    convert_field_set(w, "aws.instance_profile", slash ? slash + 1 : text);
    return CONVERT_DONE;
}

// "EnableWriteAccess" and all: one folder of one bucket.
static enum convert_next take_s3(struct convert_walk *w, const struct json *v) {
    const char *bucket = json_get_str(v, "BucketName", ""), *key = json_get_str(v, "KeyName", "");
    size_t len = strcspn(key, "*");
    static const char *const known[] = {"BucketName", "KeyName", "EnableWriteAccess", NULL};
    convert_field_others(w, v, known);
    if (!*bucket || strcmp(bucket, "*") == 0 || convert_draft_has(w->draft, "aws.s3"))
        convert_draft_note(w->draft, w->from, "left out: aws.s3 is one folder of one bucket");
    else
        convert_field_set(
            w, "aws.s3",
            arena_printf(w->draft->arena, "s3://%s%s%.*s", bucket, len ? "/" : "", (int)len, key));
    return CONVERT_DONE;
}

static enum convert_next take_shared(struct convert_walk *w, const struct json *v) {
    convert_draft_note(w->draft, w->from,
                       "%s at %s is left out: dtctl mounts no file systems. Name data in "
                       "[inputs.NAME]; results come back by themselves, or go to outputs.s3",
                       json_get_str(v, "StorageType", "shared storage"),
                       json_get_str(v, "MountDir", "its folder"));
    return CONVERT_DONE;
}

// ---- the table ----------------------------------------------------------------------------------

#define Q      "Scheduling.SlurmQueues[]."
#define R      Q "ComputeResources[]."
#define SCRIPT "put what the script does into setup.run"
#define RULES  "up makes a security group for each cluster; see aws.operator_cidrs"

const struct convert_field convert_pcluster_fields[] = {
    {.name = "Region", .key = "aws.region"},
    CONVERT_TAKE("Image.Os", "aws.ssh_user", take_os, "`ubuntu…`; other systems need aws.image"),
    {.name = "Image.CustomAmi", .key = "aws.image"},
    CONVERT_NONE("HeadNode",
                 "there is no head node: this computer starts runs, and every node answers "
                 "ssh (dtctl ssh NODE). up makes a key for each cluster"),
    {.name = "Scheduling.Scheduler", .key = "", .text = "there is no scheduler"},
    CONVERT_NONE("Scheduling.AwsBatchQueues", "AWS Batch is not available; use Slurm queues"),
    CONVERT_NONE("Scheduling.AwsBatchSettings", "AWS Batch is not available"),
    CONVERT_TYPED("Scheduling.SlurmSettings.ScaledownIdletime", "lease.idle", take_idle, "minutes",
                  CONVERT_INT),
    CONVERT_NONE("Scheduling.SlurmSettings", "there is no Slurm on the nodes"),
    CONVERT_TYPED("Scheduling.SlurmQueues[]", "cluster", take_queue, "the first one", CONVERT_MAP),
    {.name = Q "Name", .key = "cluster.name"},
    CONVERT_TAKE(Q "CapacityType", "aws.fallback", take_capacity,
                 "`spot`, `on-demand`, `capacity-block`"),
    CONVERT_TAKE(Q "AllocationStrategy", "", NULL, "zones are tried one after the other"),
    CONVERT_TYPED(Q "ComputeResources[]", "cluster", take_resource, "the first one", CONVERT_MAP),
    {.name = R "Name", .key = "", .text = "nodes are called node0, node1, …"},
    CONVERT_TAKE(R "InstanceType", "aws.instance_type", take_type, NULL),
    CONVERT_TAKE(R "Instances[].InstanceType", "aws.instance_type", take_type, "the first one"),
    CONVERT_TAKE(R "MinCount", "cluster.nodes", take_min, "if it is above 0"),
    CONVERT_TAKE(R "MaxCount", "cluster.nodes", take_max, "if MinCount is 0 or absent"),
    {.name = R "SpotPrice", .key = "aws.spot_max_price"},
    CONVERT_TYPED(R "Efa.Enabled", "aws.efa", take_efa, "`auto` or `off`", CONVERT_BOOL),
    CONVERT_NONE(R "Efa.GdrSupport", "libfabric decides by itself"),
    {.name = R "CapacityReservationTarget.CapacityReservationId",
     .key = "aws.capacity_reservation"},
    CONVERT_NONE(R "CapacityReservationTarget.CapacityReservationResourceGroupArn",
                 "name one reservation in aws.capacity_reservation"),
    CONVERT_NONE(R "DisableSimultaneousMultithreading", "set OMP_NUM_THREADS in [env]"),
    CONVERT_NONE(R "SchedulableMemory", "ranks may use all memory of their node"),
    CONVERT_NONE(R "HealthChecks", "dtctl doctor checks the nodes"),
    CONVERT_NONE(R "CustomSlurmSettings", "there is no Slurm on the nodes"),
    CONVERT_NONE(R "Tags", "tags are for the whole cluster: set aws.tags"),
    CONVERT_TYPED(R "Networking.PlacementGroup.Enabled", "aws.placement_group", take_group,
                  "`on` or `off`", CONVERT_BOOL),
    CONVERT_NONE(R "Networking.PlacementGroup", "name the group in aws.placement_group_name"),
    CONVERT_TYPED(Q "Networking.PlacementGroup.Enabled", "aws.placement_group", take_group,
                  "`on` or `off`", CONVERT_BOOL),
    CONVERT_NONE(Q "Networking.PlacementGroup.Id", "name the group in aws.placement_group_name"),
    CONVERT_NONE(Q "Networking.PlacementGroup.Name", "name the group in aws.placement_group_name"),
    CONVERT_TAKE(Q "Networking.SubnetIds[]", "aws.subnet", take_subnet, "the first one"),
    CONVERT_TYPED(Q "Networking.AssignPublicIp", "aws.public_address", take_address,
                  "`auto` or `none`", CONVERT_BOOL),
    CONVERT_NONE(Q "Networking.SecurityGroups", RULES),
    CONVERT_NONE(Q "Networking.AdditionalSecurityGroups", RULES),
    CONVERT_NONE(Q "Networking.Proxy", "set HTTPS_PROXY in [env]"),
    CONVERT_TAKE(Q "Networking.Zones[]", "aws.zones", take_zone, NULL),
    {.name = Q "ComputeSettings.LocalStorage.RootVolume.Size", .key = "aws.root_gb"},
    {.name = Q "ComputeSettings.LocalStorage.RootVolume.Iops", .key = "aws.root_iops"},
    {.name = Q "ComputeSettings.LocalStorage.RootVolume.Throughput", .key = "aws.root_throughput"},
    {.name = Q "ComputeSettings.LocalStorage.RootVolume.VolumeType", .key = "", .text = "gp3"},
    {.name = Q "ComputeSettings.LocalStorage.RootVolume.Encrypted",
     .key = "",
     .text = "volumes are encrypted"},
    CONVERT_NONE(Q "ComputeSettings.LocalStorage.EphemeralVolume",
                 "local disks are not mounted; mount one in setup.run"),
    {.name = Q "Image.CustomAmi", .key = "aws.image"},
    CONVERT_NONE(Q "CustomActions", SCRIPT),
    CONVERT_TAKE(Q "Iam.InstanceProfile", "aws.instance_profile", take_profile, "its name"),
    CONVERT_TYPED(Q "Iam.S3Access[]", "aws.s3", take_s3, "the first bucket", CONVERT_MAP),
    CONVERT_NONE(Q "Iam", "set aws.instance_profile to a profile that exists"),
    CONVERT_NONE(Q "HealthChecks", "dtctl doctor checks the nodes"),
    CONVERT_NONE(Q "CustomSlurmSettings", "there is no Slurm on the nodes"),
    CONVERT_NONE(Q "Tags", "tags are for the whole cluster: set aws.tags"),
    CONVERT_TYPED("SharedStorage[]", NULL, take_shared, "name data in [inputs.NAME]", CONVERT_MAP),
    CONVERT_TYPED("Tags[]", "aws.tags", take_tag, NULL, CONVERT_MAP),
    CONVERT_NONE("Monitoring", "dtctl status --watch; logs of nodes: dtctl exec"),
    CONVERT_NONE("AdditionalPackages", "install what is needed in setup.run"),
    CONVERT_NONE("LoginNodes", "every node answers ssh: dtctl ssh NODE"),
    CONVERT_NONE("DirectoryService", "a cluster has one user"),
    CONVERT_NONE("AdditionalResources", "make them with Terraform or CloudFormation by yourself"),
    CONVERT_NONE("Scheduling.ScalingStrategy",
                 "up makes all nodes or reports which ones AWS refused"),
    CONVERT_NONE(R "StaticNodePriority", "there is no scheduler"),
    CONVERT_NONE(R "DynamicNodePriority", "there is no scheduler"),
    {.name = Q "CapacityReservationTarget.CapacityReservationId",
     .key = "aws.capacity_reservation"},
    CONVERT_NONE(Q "CapacityReservationTarget.CapacityReservationResourceGroupArn",
                 "name one reservation in aws.capacity_reservation"),
    CONVERT_NONE("DeploymentSettings", "Terraform makes the cluster"),
    CONVERT_NONE("DevSettings", "Terraform makes the cluster"),
    CONVERT_NONE("CustomS3Bucket", "set aws.state to share the state of Terraform"),
    CONVERT_NONE("Iam", "up needs the rights of infra/operator-policy.json"),
    CONVERT_NONE("Imds", "metadata needs IMDSv2 on every node"),
    {.name = NULL},
};

static void set_nodes(struct convert_draft *d, const struct pcluster *c) {
    bool at_least = c->min && strcmp(c->min, "0") != 0;
    if (at_least || c->max)
        convert_draft_set(d, at_least ? c->min_from : c->max_from, "cluster.nodes",
                          at_least ? c->min : c->max);
    if (c->max && !str_eq(c->min, c->max))
        convert_draft_note(d, c->max_from,
                           "nodes do not come and go with the jobs: up makes %s, for as long as "
                           "the lease; another number: dtctl up --nodes N",
                           at_least ? c->min : c->max);
}

int convert_pcluster_read(struct convert_draft *d, const char *text, size_t len, struct err *e) {
    struct pcluster c = {0};
    struct convert_walk w = {.draft = d, .fields = convert_pcluster_fields, .state = &c};
    struct json *root;
    if (convert_yaml_parse(d->arena, text, len, &root, e) < 0)
        return -1;
    if (!json_get(root, "Scheduling"))
        return err_set(e, ERR_CONFIG,
                       "line 1: this is no configuration of ParallelCluster 3: it has no "
                       "Scheduling");
    convert_draft_set(d, (struct convert_from){0, "ParallelCluster"}, "cluster.provider", "aws");
    convert_field_tree(&w, root);
    set_nodes(d, &c);
    return 0;
}
