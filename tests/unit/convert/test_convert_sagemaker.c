// SPDX-License-Identifier: Apache-2.0
// Training jobs of SageMaker: the setting or the remark that comes of each member.
#include "tests/unit/convert/imported.h"

// A job with these members beside a program.
static void job(const char *members) {
    if (!import("sagemaker", arena_printf(&a,
                                          "{\"ResourceConfig\": {}, \"AlgorithmSpecification\": "
                                          "{\"ContainerEntrypoint\": [\"./a\"]}%s%s}",
                                          *members ? ", " : "", members)))
        bail_out("%s: %s", members, e.text);
}

// A machine with these members.
static void machine(const char *members) {
    if (!import("sagemaker", arena_printf(&a, "{\"ResourceConfig\": {%s}}", members)))
        bail_out("%s: %s", members, e.text);
}

static void test_machines(void) {
    machine("\"InstanceType\": \"ml.g6.xlarge\", \"InstanceCount\": 2, \"VolumeSizeInGB\": 30,"
            "\"KeepAlivePeriodInSeconds\": 600, \"VolumeKmsKeyId\": \"arn:aws:kms:x\"");
    is_str(value("cluster.provider"), "aws", "a job runs on AWS");
    is_str(value("aws.instance_type"), "g6.xlarge", "the type has AWS's name");
    is_str(value("cluster.nodes"), "2", "the instances are nodes");
    is_str(value("aws.root_gb"), "90", "the volume has room for the system, too");
    is_str(value("lease.idle"), "10m", "a pool that stays warm is a lease");
    is_str(value("aws.kms_key"), "arn:aws:kms:x", "the key is an ARN");
    is_str(value("compat.sagemaker"), "true", "the program finds the folders of SageMaker");
    machine("\"InstanceType\": \"g6.xlarge\", \"VolumeSizeInGB\": 1, \"VolumeKmsKeyId\": \"1-2\","
            "\"KeepAlivePeriodInSeconds\": 0");
    is_str(value("aws.instance_type"), "g6.xlarge", "a type may have AWS's name already");
    is_str(value("aws.root_gb"), "61", "the smallest volume is taken");
    ok(noted("VolumeKmsKeyId", "takes the ARN"), "the id of a key is noted");
    is_str(value("aws.kms_key"), "", "the id of a key is no setting");
    is_str(value("lease.idle"), "", "a pool that does not stay warm is no lease");
    machine("\"InstanceType\": \"\", \"VolumeSizeInGB\": 0, \"VolumeKmsKeyId\": \"\"");
    is_str(value("cluster.provider"), "", "an empty type is none");
    ok(noted("VolumeSizeInGB", "no volume has 0 GB"), "a volume of nothing is noted");
    ok(!noted("VolumeKmsKeyId", ""), "an empty key is none");
    machine("\"VolumeSizeInGB\": -1");
    ok(noted("VolumeSizeInGB", "no volume has -1 GB"), "a volume of less is noted");
    machine("\"VolumeSizeInGB\": 1048576");
    ok(noted("VolumeSizeInGB", "no volume has 1048576 GB"), "a volume of a petabyte is noted");
}

static void test_network(void) {
    job("\"VpcConfig\": {\"Subnets\": [\"subnet-0a1b2c3d\", \"subnet-1a1b2c3d\"]},"
        "\"EnableNetworkIsolation\": true, \"EnableManagedSpotTraining\": true");
    is_str(value("aws.subnet"), "subnet-0a1b2c3d", "the first subnet is taken");
    ok(noted("VpcConfig.Subnets", "only the first subnet"), "other subnets are noted");
    is_str(value("aws.egress"), "closed", "a network that is isolated has no way out");
    is_str(toml_get(root, "aws.fallback")->child->str, "spot", "spot instances are bought");
    job("\"VpcConfig\": {\"Subnets\": [\"subnet-0a1b2c3d\"]}, \"EnableNetworkIsolation\": false,"
        "\"EnableManagedSpotTraining\": false");
    is_str(value("aws.subnet"), "subnet-0a1b2c3d", "a subnet alone is taken");
    ok(!noted("VpcConfig.Subnets", ""), "a subnet alone needs no remark");
    is_str(value("aws.egress"), "", "an open network is what it is without a setting");
    is_str(toml_get(root, "aws.fallback")->child->str, "on-demand",
           "instances on demand are bought");
    job("\"VpcConfig\": {\"Subnets\": []}");
    is_str(value("aws.subnet"), "", "a list without subnets is none");
    job("\"StoppingCondition\": {\"MaxRuntimeInSeconds\": 7200}");
    is_str(value("task.max_time"), "2h", "a job has a limit of time");
}

// ---- the program --------------------------------------------------------------------------------

static void hyper(const char *members) {
    if (!import("sagemaker",
                arena_printf(&a, "{\"ResourceConfig\": {}, \"HyperParameters\": {%s}}", members)))
        bail_out("%s: %s", members, e.text);
}

static void test_hyperparameters(void) {
    hyper("\"sagemaker_program\": \"\\\"train.py\\\"\", \"lr\": \"0.1\", \"name\": \"\\\"x y\\\"\","
          "\"epochs\": 3, \"nul\": \"\\\"a\\\\u0000b\\\"\", \"open\": \"\\\"x\","
          "\"sagemaker_region\": \"eu\", \"sagemaker_requirements\": \"r.txt\","
          "\"sagemaker_container_log_level\": \"20\", \"sagemaker_new\": \"1\","
          "\"mp_parameters\": \"{}\"");
    is_str(command(), "train.py", "the program is read as the SDK writes it");
    is_str(value("hyperparameters.lr"), "0.1", "a number is a hyperparameter");
    is_str(value("hyperparameters.name"), "x y", "a text is read as the SDK writes it");
    is_str(value("hyperparameters.epochs"), "3", "a number may be no text");
    is_str(value("hyperparameters.nul"), "\"a\\u0000b\"", "a text with a NUL stays as it is");
    is_str(value("hyperparameters.open"), "\"x", "half a text stays as it is");
    is_str(value("train.nproc_per_node"), "", "a program is started once for each node");
    ok(!noted("sagemaker_region", "left out"), "nothing is lost without the region");
    ok(noted("sagemaker_requirements", "run pip install -r"), "requirements have advice");
    ok(noted("sagemaker_new", "for SageMaker's own container"), "unknown words are noted");
    ok(noted("mp_parameters", "library of SageMaker"), "parts of a model are noted");
}

static void test_processes(void) {
    static const struct {
        const char *members, *nproc;
    } cases[] = {
        {"\"sagemaker_program\": \"a.py\"", ""},
        {"\"sagemaker_program\": \"a.py\", \"sagemaker_torch_distributed_enabled\": \"true\"",
         "gpu"},
        {"\"sagemaker_program\": \"a.py\", \"sagemaker_torch_distributed_enabled\": \"false\"", ""},
        {"\"sagemaker_distributed_dataparallel_enabled\": \"True\"", "gpu"},
        {"\"sagemaker_distributed_dataparallel_enabled\": \"false\"", ""},
        {"\"sagemaker_mpi_enabled\": \"true\", \"sagemaker_x_enabled\": \"false\"", "gpu"},
        {"\"sagemaker_distributed_dataparallel_enabled\": \"true\","
         "\"sagemaker_mpi_enabled\": \"false\"",
         "gpu"},
        {"\"sagemaker_mpi_enabled\": \"true\","
         "\"sagemaker_mpi_num_of_processes_per_host\": \"4\"",
         "4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hyper(cases[i].members);
        is_str(value("train.nproc_per_node"), cases[i].nproc, "job %zu has its processes", i);
    }
    hyper("\"sagemaker_distributed_dataparallel_enabled\": \"true\"");
    ok(noted("dataparallel_enabled", "use torch.distributed"), "a library is noted");
    hyper("\"sagemaker_distributed_dataparallel_enabled\": \"false\"");
    ok(!noted("dataparallel_enabled", "use torch.distributed"),
       "a library that is off needs no remark");
}

static void test_words(void) {
    static const struct {
        const char *words, *why;
    } cases[] = {
        {"\"ContainerEntrypoint\": \"a\"", "line 1: ContainerEntrypoint is no list"},
        {"\"ContainerEntrypoint\": [[1]]", "line 1: a word of ContainerEntrypoint is no text"},
        {"\"ContainerEntrypoint\": [\"a\"],\n\"ContainerArguments\": {}",
         "line 2: ContainerArguments is no list"},
        {"\"ContainerEntrypoint\": [\"a\"], \"ContainerArguments\": [\"x\", null]",
         "line 1: a word of ContainerArguments is no text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ok(!import("sagemaker", arena_printf(&a,
                                             "{\"AlgorithmSpecification\": {%s}, "
                                             "\"ResourceConfig\": {}}",
                                             cases[i].words)),
           "words %zu are refused", i);
        is_str(e.text, cases[i].why, "the error has the line and the member");
    }
    ok(import("sagemaker", "{\"ResourceConfig\": {}, \"AlgorithmSpecification\": "
                           "{\"ContainerEntrypoint\": null, \"ContainerArguments\": []},"
                           "\"HyperParameters\": {\"sagemaker_program\": \"a.py\"}}"),
       "no entry point is none: %s", e.text);
    is_str(command(), "a.py", "the program is that of the SDK");
    ok(!noted("ContainerArguments", ""), "no arguments need no remark");
    ok(import("sagemaker", "{\"ResourceConfig\": {}, \"AlgorithmSpecification\": "
                           "{\"ContainerEntrypoint\": [\"a\"]},"
                           "\"HyperParameters\": {\"sagemaker_program\": \"b.py\"}}"),
       "a job may have both: %s", e.text);
    is_str(command(), "a", "the entry point is the program");
    ok(noted("sagemaker_program", "ContainerEntrypoint is the program"), "the other one is noted");
}

static void test_pairs(void) {
    job("\"Environment\": {\"A\": \"1\", \"B\": [1], \"C\": null},"
        "\"Tags\": [{\"Key\": \"k\", \"Value\": \"v\"}, {\"Key\": \"x\"}]");
    is_str(value("env.A"), "1", "a variable is set");
    ok(noted("Environment.B", "a single value"), "a list is no variable");
    ok(noted("Environment.C", "no value"), "a variable without a value is noted");
    is_str(value("aws.tags.k"), "v", "a tag is set");
    ok(noted("Tags[]", "Key and Value are texts"), "half a tag is noted");
    import("sagemaker",
           "{\"ResourceConfig\": {}, \"AlgorithmSpecification\": {\"MetricDefinitions\": ["
           "{\"Name\": \"loss\", \"Regex\": \"l=(.*)\"}, {\"Regex\": \"x\"}, {\"Name\": \"y\"},"
           "{\"Name\": \"z\", \"Regex\": \"(.)\", \"Unit\": 1}]}}");
    is_str(value("metrics.loss"), "l=(.*)", "a metric is set");
    is_str(value("metrics.z"), "(.)", "a metric with more members is set");
    ok(noted("MetricDefinitions[].Unit", "does not know"), "a member of a metric is noted");
    is_str(value("metrics.y"), "", "half a metric is no setting");
    ok(noted("MetricDefinitions[]", "Name and Regex are texts"), "half a metric is noted");
}

// ---- data ---------------------------------------------------------------------------------------

static void channel(const char *members, const char *s3) {
    job(arena_printf(&a,
                     "\"InputDataConfig\": [{\"ChannelName\": \"train\", \"DataSource\": "
                     "{\"S3DataSource\": {\"S3Uri\": \"s3://b/p\"%s}}%s}]",
                     s3, members));
}

static void test_channels(void) {
    channel("", "");
    is_str(value("inputs.train.source"), "s3://b/p", "a channel is an input");
    is_str(value("inputs.train.mode"), "FullyReplicated", "every node gets all of it");
    ok(!noted("InputDataConfig", ""), "a plain channel needs no remark");
    channel(", \"ShuffleConfig\": {\"Seed\": 7}", ", \"S3DataType\": \"S3Prefix\", "
                                                  "\"S3DataDistributionType\": \"ShardedByS3Key\"");
    is_str(value("inputs.train.mode"), "ShardedByS3Key", "a channel may be dealt");
    is_str(value("inputs.train.order"), "shuffle:7", "the deal has the seed");
    channel(", \"ShuffleConfig\": {\"Seed\": 7}", "");
    is_str(value("inputs.train.order"), "", "a copy has no order");
    ok(noted("ShuffleConfig.Seed", "only ShardedByS3Key deals files"),
       "the seed of a copy is noted");
    channel("", ", \"S3DataType\": \"ManifestFile\"");
    is_str(value("inputs.train.source"), "", "a list is no input");
    ok(noted("InputDataConfig", "is a list (ManifestFile)"), "a list is noted");
    channel(", \"CompressionType\": \"Gzip\", \"RecordWrapperType\": \"RecordIO\"", "");
    ok(noted("InputDataConfig", "is compressed"), "a compressed channel is noted");
    ok(noted("InputDataConfig", "not wrapped as RecordIO"), "records are noted");
    channel(", \"CompressionType\": \"None\", \"RecordWrapperType\": \"None\"", "");
    ok(!noted("InputDataConfig", ""), "a channel without either needs no remark");
    channel(", \"Odd\": 1", ", \"AttributeNames\": []");
    ok(noted("InputDataConfig[].Odd", "does not know"), "an unknown member is noted");
    ok(noted("InputDataConfig[].AttributeNames", "does not know"), "one of S3 is noted, too");
    job("\"InputDataConfig\": [{\"ChannelName\": \"fs\", \"DataSource\": "
        "{\"FileSystemDataSource\": {}}}]");
    ok(noted("InputDataConfig", "channel 'fs' is on a file system"), "a file system is noted");
}

static void test_modes(void) {
    static const struct {
        const char *mode, *note; // NULL: none
    } cases[] = {{"File", NULL},
                 {"", NULL},
                 {"FastFile", "takes deliver = \"stream\""},
                 {"Pipe", "Pipe is not available"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        channel(arena_printf(&a, ", \"InputMode\": \"%s\"", cases[i].mode), "");
        ok(noted("InputDataConfig", cases[i].note ? cases[i].note : "") == (cases[i].note != NULL),
           "the mode '%s' of a channel has %s", cases[i].mode, cases[i].note ? "advice" : "none");
        import("sagemaker", arena_printf(&a,
                                         "{\"ResourceConfig\": {}, \"AlgorithmSpecification\": "
                                         "{\"TrainingInputMode\": \"%s\"}}",
                                         cases[i].mode));
        const char *want = cases[i].note ? cases[i].note : "available";
        ok(noted("TrainingInputMode", want) == (cases[i].note != NULL),
           "the mode '%s' of a job has %s", cases[i].mode, cases[i].note ? "advice" : "none");
    }
}

static void test_results(void) {
    job("\"OutputDataConfig\": {\"S3OutputPath\": \"s3://bkt/out\"},"
        "\"CheckpointConfig\": {\"S3Uri\": \"s3://bkt/state\", \"LocalPath\": \"/opt/ml/x\"}");
    is_str(value("outputs.s3"), "s3://bkt/out", "results go to the bucket");
    is_str(value("state.keep"), "task", "checkpoints are kept for the next run");
    ok(noted("CheckpointConfig.S3Uri", "copy those in s3://bkt/state"), "earlier ones are noted");
    ok(noted("CheckpointConfig.LocalPath", "the folder of checkpoints is /opt/ml/checkpoints"),
       "another folder is noted");
    job("\"OutputDataConfig\": {\"S3OutputPath\": \"\"},"
        "\"CheckpointConfig\": {\"LocalPath\": \"/opt/ml/checkpoints\"}");
    is_str(value("outputs.s3"), "", "an empty path is none");
    ok(!noted("CheckpointConfig.LocalPath", "the folder of"), "SageMaker's own folder is there");
    job("\"CheckpointConfig\": {\"LocalPath\": \"\"}");
    ok(!noted("CheckpointConfig.LocalPath", "the folder of"), "no folder is none");
}

int main(void) {
    test_machines();
    test_network();
    test_hyperparameters();
    test_processes();
    test_words();
    test_pairs();
    test_channels();
    test_modes();
    test_results();
    arena_fini(&a);
    return done_testing();
}
