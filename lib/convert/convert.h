// SPDX-License-Identifier: Apache-2.0
// Job files of other tools, to a configuration of dtctl.
//
//     const struct convert_format *f = convert_find("sbatch");
//     struct convert_draft d = {.arena = &arena, .tool = f->word, .file = "job.sbatch"};
//     if (f->read(&d, text, len, e) < 0 || convert_draft_write(&d, &out, e) < 0) …
//
// The file is foreign: no line of it is run, no file that it names is read, and a connection is
// never made.
#ifndef CONVERT_CONVERT_H
#define CONVERT_CONVERT_H

#include "convert/convert_draft.h"
#include "convert/convert_field.h"

struct convert_format {
    const char *word;    // "sbatch"
    const char *summary; // "a batch script of Slurm"
    // Adds settings and notes. A file that cannot be read is ERR_CONFIG, with its line.
    int (*read)(struct convert_draft *d, const char *text, size_t len, struct err *e);
    const struct convert_field *fields; // for the documentation
};

extern const struct convert_format convert_formats[]; // word NULL ends the list
const struct convert_format *convert_find(const char *word);

int convert_sbatch_read(struct convert_draft *d, const char *text, size_t len, struct err *e);
int convert_sagemaker_read(struct convert_draft *d, const char *text, size_t len, struct err *e);
int convert_pcluster_read(struct convert_draft *d, const char *text, size_t len, struct err *e);
int convert_sky_read(struct convert_draft *d, const char *text, size_t len, struct err *e);
extern const struct convert_field convert_sbatch_fields[], convert_sagemaker_fields[],
    convert_pcluster_fields[], convert_sky_fields[];

#endif
