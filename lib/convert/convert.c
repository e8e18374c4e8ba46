// SPDX-License-Identifier: Apache-2.0
// The list of formats.
#include "convert/convert.h"

#include <string.h>

const struct convert_format convert_formats[] = {
    {"sbatch", "a batch script of Slurm", convert_sbatch_read, convert_sbatch_fields},
    {"sagemaker", "a CreateTrainingJob request of SageMaker, or what describe-training-job prints",
     convert_sagemaker_read, convert_sagemaker_fields},
    {"pcluster", "config.yaml of ParallelCluster 3", convert_pcluster_read,
     convert_pcluster_fields},
    {"sky", "a task of SkyPilot", convert_sky_read, convert_sky_fields},
    {NULL, NULL, NULL, NULL},
};

const struct convert_format *convert_find(const char *word) {
    for (const struct convert_format *f = convert_formats; f->word; f++)
        if (strcmp(f->word, word) == 0)
            return f;
    return NULL;
}
