// SPDX-License-Identifier: Apache-2.0
// The options of the native trainer: the [train] rows that dtctl and dttrain share
// (options_train.c). Times in epochs or steps as named; every count is per rank unless it says
// otherwise. The arena of the option_set owns strings and lists.
#ifndef CONF_TRAIN_CONFIG_H
#define CONF_TRAIN_CONFIG_H

#include "conf/option.h"
#include "conf/train_bench.h"
#include "conf/train_names.h"

#include <stdbool.h>
#include <stdint.h>

struct train_config {
    int recipe; // enum train_recipe
    // model
    const char *model;         // as train_model.h says
    int stem;                  // enum train_stem; resnets, where model does not say
    struct option_ints hidden; // mlp: width of each hidden layer, where model does not say
    int64_t classes;           // 0: as many as the data has
    // data
    int dataset;              // enum train_dataset
    const char *data;         // name of an input (DTCTL_INPUT_<NAME>), or a path; "": input `data`
    const char *val;          // as data: what is evaluated on; "": the test part of data
    int decode;               // enum train_decode
    int on_bad_sample;        // enum train_bad
    int64_t bad_samples_max;  // skip: of one data set and rank
    int64_t image_size;       // pixels per side; 0: that of the data
    bool random_resized_crop; // training: a random part of 8 to 100 % is brought to image_size
    int64_t eval_resize;      // pixels of the shorter side before the middle is cut out; 0: chosen
    int64_t train_size;       // shapes: images in the training part
    int64_t test_size;        // shapes: images in the test part
    int64_t decode_threads;   // 0: the rank's share of the processors
    bool flip;                // mirror half of the training images
    bool flip_alternate;      // each image in every other epoch
    int64_t crop_pad;         // pixels of padding before a random crop back; 0: none
    int crop_fill;            // enum train_fill
    int64_t whiten_images;    // that the weights of a whitened layer are from
    int normalize;            // enum train_normalize
    struct option_reals mean; // three numbers in 0…1; empty: by normalize
    struct option_reals std;
    bool drop_last; // sampler: leave out the tail instead of repeating the head
    // optimisation
    int64_t epochs;
    int64_t batch;      // images per rank and micro-batch
    int64_t accumulate; // micro-batches per step
    int optimizer;      // enum train_optimizer
    double lr;
    double momentum; // sgd
    bool nesterov;   // sgd
    double weight_decay;
    int decay;                           // enum train_decay
    double clip_norm;                    // 0: gradients are not clipped
    double beta1, beta2, eps;            // adam, adamw
    int schedule;                        // enum train_schedule
    int64_t step_epochs;                 // step: epochs between two reductions
    struct option_ints milestones;       // multistep: epochs
    double gamma;                        // step, multistep, exponential: factor
    double peak, cycle_start, cycle_end; // onecycle, triangle: share of the run; shares of lr
    double warmup_epochs;                // linear warm-up, for every schedule
    double min_lr;                       // cosine, linear: lr at the end
    double norm_shift_lr;                // factor of lr for the shifts of norms
    int64_t first_layer_epochs;          // after which the first layer stays; 0: never
    double lookahead, lookahead_power;   // slow weights: 0: none
    int64_t lookahead_every;             // steps
    int64_t lookahead_epochs;            // after which they begin
    double ema;                          // decay of the average of weights; 0: none
    double label_smoothing;
    int64_t seed;
    // evaluation, output, checkpoints
    bool eval;
    int eval_views;            // enum train_views
    int64_t eval_every_epochs; // and behind the last
    int64_t eval_batch;
    int64_t print_every;             // steps between two lines of metrics
    int64_t check_every;             // steps between two comparisons of all ranks; 0: none
    int64_t checkpoint_every_epochs; // 0: none in between; the end is always written
    int64_t checkpoint_every_steps;  // 0: none
    int64_t keep_last;               // state files kept
    const char *resume;              // "auto", "never", or a folder (dtctl: also a run)
    const char *weights;             // as data: a model file to begin with
    bool new_head;                   // of a model file, all but the last layer
    bool resume_other;               // also a checkpoint of other data or another seed
    // machine
    int device;           // enum train_device
    int kernels;          // enum train_kernels
    int dtype;            // enum train_dtype
    int64_t threads;      // compute threads; 0: the rank's share of the cores
    int64_t bucket_bytes; // gradient bucket
    int64_t comm_sockets; // TCP connections to each ring neighbour
    int64_t comm_timeout; // ms without progress until a collective fails
    // parallel modes (options_parallel.c)
    int64_t pipeline;              // stages of the model on as many ranks
    int64_t microbatches;          // parts of a batch; 0: chosen
    const char *pipeline_schedule; // for train_pipe_order
    struct option_list cuts;       // layers that stages begin with; empty: by their work
    int placement;                 // enum train_placement
    int zero;                      // enum train_zero: each rank updates a part
    int64_t local_steps; // of a rank between two averages; below 2: gradients are averaged
    double outer_lr, outer_momentum; // of the optimizer that applies those averages
    int recompute;                   // enum train_recompute
    int wire;                        // enum train_wire
    int collectives;                 // enum train_collectives
    int graph;                       // enum train_graph
};

extern const struct option_table options_train, options_rate, options_parallel;
extern const struct option_table *const train_tables[]; // both; NULL-terminated

// The parallel plan that the options give for a number of ranks.
enum train_pipe { TRAIN_PIPE_GPIPE, TRAIN_PIPE_1F1B, TRAIN_PIPE_INTERLEAVED };
struct train_parallel {
    enum train_pipe order;
    int pipe, chunks; // ranks of a pipeline, and stages of each
    int micros;       // parts of each batch
};
// Refuses impossible plans by name. world 0: unknown, and not checked.
int train_parallel(const struct train_config *o, int world, struct train_parallel *out,
                   struct err *e);

// Settings of train.recipe, for every key that nothing else has set. To be called before
// option_set_finish.
void train_recipe_apply(struct option_set *set);
// The i-th setting of a recipe; false behind the last.
bool train_recipe_setting(enum train_recipe recipe, size_t i, const char **key, const char **text);
const char *train_recipe_text(enum train_recipe recipe); // what it is

// dttrain's command line: --config FILE (-f), --set train.key=value…, --plan, --bench and what they
// need, --help (-h), --version.
// A whole dtctl.toml is fine: keys of the other tables are known and left alone.
struct train_flags {
    const char *file; // "": none
    bool help, version;
    struct option_list set;
    bool devices;                     // list the devices of this computer, and end
    bool plan, json;                  // print the plan of the run, and end
    int64_t ranks, ranks_per_node;    // of the run that is planned
    double network;                   // Gbit/s between its nodes
    struct train_bench_options bench; // kind other than none: measure a collective, and end
};
// env is the program's environment. With RANK in it DTCTL_* are not read: under a launcher dtctl
// has resolved them already. set is the caller's, for render_help and places. With --help or
// --version nothing is read.
int train_config_load(struct train_config *t, struct train_flags *flags, struct option_set *set,
                      struct arena *a, int argc, const char *const *argv, char *const *env,
                      struct err *e);

#endif
