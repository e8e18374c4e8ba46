// SPDX-License-Identifier: Apache-2.0
// The native trainer's options for the learning rate over time.
#include "conf/train_config.h"

#include <stddef.h>

#define AT(field) .offset = offsetof(struct train_config, field)

static const struct option_rule min_lr_rules[] = {{OPTION_RULE_AT_MOST, "train.lr", NULL}, {0}};
static const struct option_rule warmup_rules[] = {{OPTION_RULE_AT_MOST, "train.epochs", NULL}, {0}};

static const struct option_row rows[] = {
    {.key = "train.schedule",
     .type = OPTION_CHOICE,
     AT(schedule),
     .text = "constant",
     .choices = train_schedule_words,
     .help = "Learning rate over time: constant; step, times train.gamma every train.step_epochs; "
             "multistep, times train.gamma at each of train.milestones; exponential, times "
             "train.gamma every epoch; cosine or linear, down to train.min_lr; onecycle, along "
             "cosines, or triangle, along lines, up to train.lr at train.peak and down."},
    {.key = "train.milestones",
     .type = OPTION_INTS,
     AT(milestones),
     .min = 1,
     .max = 1000000,
     .items_max = 64,
     .arg = "EPOCH,EPOCH,…",
     .help = "Epochs at which schedule multistep reduces the learning rate."},
    {.key = "train.peak",
     .type = OPTION_REAL,
     AT(peak),
     .text = "0.3",
     .min = 0,
     .max = 1,
     .help = "Share of the run after which schedules onecycle and triangle reach train.lr."},
    {.key = "train.cycle_start",
     .type = OPTION_REAL,
     AT(cycle_start),
     .text = "0.04",
     .min = 0,
     .max = 1,
     .help = "First learning rate of schedules onecycle and triangle, as a share of train.lr."},
    {.key = "train.cycle_end",
     .type = OPTION_REAL,
     AT(cycle_end),
     .text = "4e-6",
     .min = 0,
     .max = 1,
     .help = "Last learning rate of schedules onecycle and triangle, as a share of train.lr."},
    {.key = "train.step_epochs",
     .type = OPTION_INT,
     AT(step_epochs),
     .text = "30",
     .min = 1,
     .max = 1000000,
     .arg = "EPOCHS",
     .help = "Epochs between two reductions of schedule step."},
    {.key = "train.gamma",
     .type = OPTION_REAL,
     AT(gamma),
     .text = "0.1",
     .min = 0,
     .max = 1,
     .help = "Factor of each reduction of schedules step, multistep and exponential."},
    {.key = "train.warmup_epochs",
     .type = OPTION_REAL,
     AT(warmup_epochs),
     .rules = warmup_rules,
     .text = "0",
     .min = 0,
     .max = 1000000,
     .arg = "EPOCHS",
     .help = "Number of first epochs in which the learning rate rises linearly."},
    {.key = "train.min_lr",
     .type = OPTION_REAL,
     AT(min_lr),
     .rules = min_lr_rules,
     .text = "0",
     .min = 0,
     .max = 1000,
     .help = "Learning rate at the end of schedules cosine and linear."},
};

const struct option_table options_rate = {"Native trainer, learning rate", rows,
                                          sizeof rows / sizeof rows[0]};
