// SPDX-License-Identifier: Apache-2.0
// State shared by the parts of the trainer. Private to trainer*.c.
#ifndef TRAINER_TRAINER_IMPL_H
#define TRAINER_TRAINER_IMPL_H

#include "data/dataset.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "nn/checkpoint.h"
#include "nn/lr_schedule.h"
#include "nn/network.h"
#include "nn/optimizer.h"
#include "nn/stage.h"
#include "trainer/bucket.h"
#include "trainer/cores.h"
#include "trainer/meter.h"
#include "trainer/step_program.h"
#include "trainer/trainer.h"

// The numbers that travel behind the gradients; their means come back.
enum { TAIL_LOSS, TAIL_TOP1, TAIL_TOP5, TAIL_STOP, TAIL_SAVE };

enum trainer_phase { PHASE_START, PHASE_DATA, PHASE_TRAIN, PHASE_EVAL, PHASE_CHECKPOINT, PHASES };

struct shard {
    struct sampler sampler;
    struct loader *loader;
};

// Of a data set of which every node has a share of its own, or of one that all have.
struct data_shares {
    bool on;
    int64_t images;      // of all nodes
    int64_t least, most; // of a node
    uint64_t each;       // of a rank in an epoch; 0: as its sampler has it
};

// Scratch for the pixels of a batch.
struct feed {
    uint8_t *flip;
    int16_t *y, *x;
    bool kept; // the GPU has a copy of the training images
};

struct step_times {
    int64_t data_ns, compute_ns, comm_ns, total_ns;
};

// A finished step. The loss of all ranks may still be on its way.
struct step_done {
    int64_t step, batch, batches, images; // batch of batches of the epoch
    double lr, grad_norm;
    struct step_times times;
};

// Local steps (train.local_steps).
struct round {
    int64_t steps, taken;        // in a round, 0: there are none; since it began
    bool same;                   // the inner optimizer state of all ranks is the same
    struct step_program program; // the end of a round
    struct step_done last;
    float totals[NETWORK_TAIL], tail[NETWORK_TAIL]; // of the last step; of the last known one
    bool pending;                                   // the totals are on their way
    uint64_t ticket;
    int64_t step;
    double loss; // of this rank in that step
};

// A step that the host has enqueued, or a part of one that is captured.
enum { ASYNC_STEPS = 2, ASYNC_GRAPHS_MAX = 132 };
struct async_step {
    struct step_done done;
    uint64_t ticket; // of its first collective; 0: none
};
struct async_graph {
    int64_t rows; // of the step
    int segment;  // of the step
    void *captured;
    struct comm_call *calls; // its collectives
    size_t ncalls, room;
};

// trainer_async.c: steps of a device that the host does not wait for.
struct async {
    bool on, joined;          // joined: a collective of their own adds up the totals
    bool capture, seen;       // steps are captured; one was made without
    char why[256];            // not
    struct kernel_step *step; // of the device
    struct async_graph graph[ASYNC_GRAPHS_MAX], *capturing;
    int graphs;
    struct async_step pending[ASYNC_STEPS + 1];
    int64_t enqueued, settled; // steps
    uint64_t ticket;           // of the first collective of the step that is enqueued; 0: none
    int64_t since_ns;          // the step before was settled
};

// A stage of the model, known to every rank.
struct part {
    struct nn_model model;
    struct bucket_list buckets; // of its gradients
    size_t states;              // elements of optimizer state that each rank of it has
};

// A stage that this rank has.
struct chunk {
    struct part *part;
    struct network net;
    struct optimizer optimizer;
    uint16_t *wire; // its gradients as they travel, where that is not as they are; else NULL. Where
                    // they go from device to device it is memory of the device
    float *mirror;  // for numbers of a device that travel through the host; else NULL
};

// The newest call of a mark of the device's other queues.
enum { TRAINER_MARKS_LINKS = BESIDE_MARKS_MAX / 2 }; // the first mark of links; below: of buckets
struct device_call {
    struct comm_device *device; // NULL: none
    uint64_t ticket, order;     // order: among all calls of this rank, from 1
};

// A direction between two neighbouring stages.
struct stage_link {
    struct comm *host;          // NULL: none
    struct comm_device *device; // NULL: numbers travel through the host
};

// A send from a slot that may still be in progress.
struct sending {
    struct comm *link; // NULL: nothing, or from a device
    uint64_t ticket;
    int mark;    // of a device; 0: nothing
    float *copy; // of a device's numbers, in the host; NULL: none
};

// trainer_links.c
struct links {
    struct stage_link of[STEP_OPS]; // for sends and receives
    struct sending *sent;           // by chunk and slot; NULL: no pipeline
    float *copy;                    // of received numbers, for a device; NULL: none
    uint64_t calls;                 // of devices
};

struct trainer {
    const struct trainer_config *config;
    const struct train_config *options;
    struct comm *comm;
    int rank, world;
    struct mesh mesh;
    int data_rank, pipe_rank;
    enum pipe_order order;
    int chunks;                 // stages of each rank
    int micro_batch, micros;    // samples of a micro-batch; micro-batches of a batch
    struct comm_device *device; // collectives of numbers on devices; NULL: they go through the host
    struct comm_device *device_data; // of the ranks that have the same stages
    struct err no_device;            // why not, if NULL and asked for
    struct device_call *calls;       // by mark
    uint64_t called, ended;          // calls so far; as many are known to have ended
    struct device_wait {             // while the host waits for devices
        struct comm_device *device;  // that has the call that is under way …
        uint64_t ticket;             // … and its ticket
        int64_t since_ms;
        struct err lost; // why the wait was given up; code ERR_NONE: it was not
    } wait;
    struct comm *data; // the ranks that have the same stages; comm where all have
    struct links links;
    bool zero;     // each rank updates a part of the parameters (ZeRO stage 1)
    bool apart;    // the totals of a step do not travel behind the gradients
    bool reals;    // activations are, also where they could be kept in train.dtype
    bool planning; // sizes alone are wanted: nothing is allocated or read
    int shards;    // ranks that share out the data, or what config.shards pretends
    cpu_set_t allowed;
    struct machine_limits limits;
    struct cores cores;

    struct dataset train, test; // where they are shared out, what this node has of them
    struct data_shares shares[DATASET_SPLITS];
    int64_t data_digest; // of train: two sets with one digest hold the same images; 0: not known
    int64_t bad_train, bad_test; // samples that all ranks left out (trainer_data_bad)
    struct augment_config augment;
    struct shard shard[TRAINER_SHARDS_MAX]; // one, but for config.shards
    struct shard eval;
    struct feed feed;

    struct nn_model *model; // the whole
    struct part *part;      // its stages
    int parts;
    struct chunk chunk[PROGRAM_CHUNKS_MAX];
    int states; // buffers of optimizer state
    int slots;
    struct lr_schedule schedule;
    struct step_program program, last_program; // of a step; of the last one of an epoch
    struct step_program eval_program;
    struct round round;
    struct async async;

    struct train_position at;
    struct train_position
        kept; // of the newest checkpoint that was written or begun; samples 0: none
    struct epoch_record *epochs;
    struct checkpoint_thread *writer; // keepers; NULL: another rank writes
    struct checkpoint_image *image;   // the checkpoint to resume from, until it is taken over
    int copy_missing;                 // the first rank whose last checkpoint failed; -1: none
    double lr, grad_norm;             // of the last step
    bool stop_seen, save_seen;
    int last_rows, last_slot; // of the last micro-batch; rows 0: this process made no step
    bool proven;              // the weights are known to give a finite loss
    bool held;                // a checkpoint waits for that
    int64_t checked_step;     // of the last comparison of all ranks' parameters
    int64_t boundary_step;    // the last one behind which all ranks had the same parameters
    sig_atomic_t saves;       // requests of config.save that have been taken up

    struct meter_set meters;
    struct step_times interval; // since the last line
    int64_t interval_steps, interval_images;
    double interval_loss, interval_top1, interval_top5; // sums over steps
    int metrics_fd;
    int report_errno;     // why metrics could not be written, the first time; 0: they could
    int64_t reports_lost; // lines
    int64_t phase_ns[PHASES];
    int64_t images, train_ns; // trained on in this process
    struct meter_eval last_eval;
};

// trainer_stages.c: the stages of each rank, and the connections between stages.
int trainer_stages_choose(struct trainer *t, struct err *e); // from the options alone; refuses
int trainer_stages_cut(struct trainer *t, struct err *e);    // the model into stages
int trainer_stages_open(struct trainer *t, struct err *e);   // groups of ranks
void trainer_stages_close(struct trainer *t);
// trainer_links.c: between neighbouring stages.
int trainer_links_open(struct trainer *t, struct err *e); // a call of all ranks
void trainer_links_close(struct trainer *t);
// Nothing is on its way out of the slot of this item any more, or ops that follow wait for it.
int trainer_links_clear(struct trainer *t, const struct step_item *it, struct err *e);
// Before the host meets the other ranks: it waits until nothing is on its way out of any slot.
int trainer_links_end(struct trainer *t, struct err *e);
// So many numbers. A send lasts until the slot is cleared; a receive has ended, or ops that follow
// wait for it.
int trainer_links_receive(struct trainer *t, const struct step_item *it, void *to, size_t count,
                          struct err *e);
int trainer_links_send(struct trainer *t, const struct step_item *it, void *from, size_t count,
                       struct err *e);
// trainer_step.c: runs the items of a program.
enum run_mode {
    RUN_TRAIN,
    RUN_EVAL,
    RUN_PROBE, // an evaluation of the last micro-batch
    RUN_ROUND  // the end of a round
};
struct step_run {
    struct trainer *t;
    enum run_mode mode;
    enum network_mode probe; // RUN_PROBE: how
    int batch;               // samples of a micro-batch, but for the last ones …
    int64_t rows;            // … of so many in all
    int64_t consumed;        // of the epoch, when the step is done
    float tail[NETWORK_TAIL];
    double loss, top1, top5; // RUN_EVAL, RUN_PROBE: sums over what this rank saw
    double squares, grad_scale;
    bool last;                         // step of an epoch
    const struct loader_batch *loaded; // RUN_EVAL: the images that are looked at
    struct step_times times;
};
int trainer_step_run(struct step_run *r, const struct step_program *p, struct err *e);
// Of so many micro-batches of each data-parallel rank; forward: an evaluation.
int trainer_make_program(struct trainer *t, struct step_program *p, int64_t micros, bool forward,
                         struct err *e);
int trainer_local_shards(const struct trainer *t);
int trainer_step_item(struct step_run *r, const struct step_item *it, struct err *e);
// Counts an item that the device runs by itself.
void trainer_step_skip(struct step_run *r, const struct step_item *it);
double trainer_progress(const struct trainer *t, int64_t consumed); // in epochs
double trainer_loss_scale(const struct step_run *r); // of each row's loss in the mean
void trainer_set_requests(struct step_run *r);       // in the tail: whether to stop, or to save
double trainer_lookahead(const struct step_run *r);  // optimizer.keep of this step
// trainer_async.c: a device has one chunk.
static inline struct network *trainer_async_net(const struct trainer *t) {
    return (struct network *)&t->chunk[0].net;
}
void trainer_async_choose(struct trainer *t); // before apart is decided
int trainer_async_open(struct trainer *t, struct err *e);
void trainer_async_close(struct trainer *t);
void trainer_async_say(const struct trainer *t, struct strbuf *line);
bool trainer_is_async(const struct step_run *r);
void trainer_async_totals(struct step_run *r);
int trainer_async_judge(struct step_run *r, struct err *e);
// Enqueues a step; accounts for the one ASYNC_STEPS before.
int trainer_async_step(struct step_run *r, const struct step_program *p, struct step_done *d,
                       struct err *e);
int trainer_async_drain(struct trainer *t, struct err *e); // accounts for all
void trainer_async_forget(void *trainer);                  // drops the captured steps
// A collective was enqueued; the ticket of the first one that may be under way, 0: none.
void trainer_async_called(struct trainer *t, const struct comm_call *call, uint64_t ticket);
uint64_t trainer_async_ticket(const struct trainer *t);

// trainer_graph.c: the items of a program, captured or launched again.
int trainer_graph_step(struct step_run *r, const struct step_program *p, struct err *e);
// trainer_local_steps.c: rounds of local steps. Between a step and the next, parameters and running
// statistics are the same on all ranks only where round.taken is 0.
int trainer_local_steps_judge(struct step_run *r, struct err *e); // a step inside a round
int trainer_local_steps_judge_change(struct step_run *r, struct err *e);
int trainer_local_steps_end(struct trainer *t, struct step_times *times, struct err *e);
// The inner optimizer state of all ranks becomes their mean.
int trainer_local_steps_share(struct trainer *t, struct err *e);
// trainer_gradients.c: the numbers of a bucket between ranks. Between a start and its end nothing
// may touch them. number: of the bucket among all of this rank.
void trainer_own_part(const struct trainer *t, const struct bucket *b, size_t *begin,
                      size_t *end); // the part of a bucket that this rank updates
int trainer_average_start(struct trainer *t, struct chunk *c, struct bucket *b, int number,
                          struct err *e); // gradients
int trainer_average_end(struct trainer *t, struct chunk *c, const struct bucket *b, int number,
                        struct err *e);
int trainer_collect_start(struct trainer *t, struct chunk *c, struct bucket *b, int number,
                          struct err *e); // parameters
int trainer_collect_end(struct trainer *t, struct chunk *c, const struct bucket *b, int number,
                        struct err *e);
// trainer_collectives.c: collectives of numbers that lie on devices.
int trainer_device_open(struct trainer *t, struct err *e); // where the options want it
// The parts of it that need no trainer. choose: 1, open; 0: none, and e says why if asked for.
int trainer_device_compare(const struct trainer_config *config, struct comm *comm, struct err *e);
int trainer_device_choose(const struct trainer_config *config, struct comm *comm,
                          struct comm_device **out, struct err *e);
void trainer_device_close(struct trainer *t);
void trainer_device_say(const struct trainer *t, struct strbuf *line); // how gradients travel
// A group of the ranks of t->device, as comm_split; *out is NULL where there is no t->device.
int trainer_device_split(struct trainer *t, struct comm_device **out, int color, int key,
                         struct comm *host, struct err *e);
// Starts a call in one of the queues of the device; operations that are enqueued after the second
// function come after the end of it.
int trainer_device_start(struct trainer *t, struct comm_device *device, int queue, int mark,
                         const struct comm_call *call, struct err *e);
void trainer_device_after(const struct trainer *t, int mark);
int trainer_device_check(const struct trainer *t, struct err *e); // -1: the device has failed
// trainer_feed.c
int trainer_feed_open(struct trainer *t, struct err *e);
void trainer_feed_close(struct trainer *t);
void trainer_feed_keep(struct trainer *t); // images in the GPU's memory, where there is room
void trainer_feed(struct trainer *t, const struct loader_batch *b, const struct dataset *d,
                  struct network *net, enum network_mode mode, int number);
int trainer_views(const struct trainer *t); // of each image in an evaluation
double trainer_view_weight(const struct trainer *t, int view);
// trainer_redistribute.c: between the parts of the model on the ranks and the whole model.
int trainer_gather(struct trainer *t, struct checkpoint_image *to, struct err *e); // to NULL: help
int trainer_scatter(struct trainer *t, const struct checkpoint_image *from, int root, bool states,
                    struct err *e);                        // from: at the root
int trainer_share_stats(struct trainer *t, struct err *e); // those of data-parallel rank 0
// trainer_setup.c
int trainer_open(struct trainer *t, const struct trainer_config *config, struct err *e);
int trainer_open_model(struct trainer *t, struct err *e);   // of the data's images
int trainer_open_network(struct trainer *t, struct err *e); // this rank's stages
void trainer_close(struct trainer *t);
// trainer_data_shares.c
// Tells the other nodes of this one's share and hears of theirs: t->shares[split], and of the
// training images in *like the class ids of all, which `keep` owns. own: samples 0 where this node
// has none of the split.
int trainer_data_shares_exchange(struct trainer *t, enum dataset_split split,
                                 const struct dataset *own, struct dataset *like,
                                 struct arena *keep, struct err *e);
int64_t trainer_data_shares_digest(const struct trainer *t);
// trainer_data.c
int trainer_data_open(struct trainer *t, struct err *e);
// Threads of this rank that decode images of d: as many as the setting says, or else the rank's
// share of the processors. None where pixels are in memory already.
int trainer_decode_threads(const struct trainer *t, const struct dataset *d);
// Waits for a key of the store that another rank sets when it has its data, or until config.stop.
int trainer_data_await(const struct trainer *t, const char *key, void *value, size_t cap,
                       size_t *len, struct err *e);
int trainer_data_digest(struct trainer *t, struct err *e); // finds data_digest
// Sizes and counts of the data without its images; where it is not on this machine, those that
// train.image_size and train.classes give, and no samples.
int trainer_data_survey(struct trainer *t, struct err *e);
size_t trainer_data_bytes(const struct trainer *t); // that a rank keeps of them
// Memory of a rank that grows with the model, the batch or the data, as the plan counts it.
size_t trainer_plan_own_bytes(const struct trainer *t);
// Sets the weights that come from the data (nn_model.whiten), the same on all ranks.
int trainer_whiten(struct trainer *t, struct err *e);
void trainer_data_close(struct trainer *t);
int trainer_data_bad(struct trainer *t, struct err *e); // at the end, on all ranks
// trainer_resume.c: state that is equal on all ranks comes from one rank.
int trainer_resume(struct trainer *t, struct err *e);
// trainer_checkpoint.c: every rank calls these at the same step.
int trainer_keeper_open(struct trainer *t, struct err *e);
// Takes a checkpoint. It is written in the background after its weights have proven finite;
// otherwise a diverging run would save a diverged checkpoint and resume from it after each restart.
int trainer_checkpoint(struct trainer *t, struct err *e);
void trainer_proven(struct trainer *t);
int trainer_checkpoint_wait(struct trainer *t, struct err *e); // -1: no node could write it
// Writes a copy of the resumed checkpoint if it is wanted.
int trainer_checkpoint_keep(struct trainer *t, bool wanted, struct err *e);
// trainer_epoch.c
// The totals of a step are known, on all ranks at the same point.
void trainer_account(struct trainer *t, const struct step_done *d, const float tail[NETWORK_TAIL]);
int trainer_epoch(struct trainer *t, struct err *e); // to its end, or until stop_seen
// trainer_check.c: each returns -1 with the sentence that ends the run.
int trainer_diverged(const struct trainer *t, const char *what, int64_t step, struct err *e);
// Of one number of each rank, such as "the loss"; own: this rank's.
int trainer_rank_diverged(struct trainer *t, const char *noun, double own, int64_t step,
                          struct err *e);
int trainer_gradient_diverged(struct trainer *t, int64_t step, struct err *e);
// The same of a step whose gradients are gone: element is what the device has noted; -1: none.
int trainer_gradient_halted(struct trainer *t, int64_t element, int64_t step, struct err *e);
int trainer_check_ranks(struct trainer *t, struct err *e); // or 0: all have the same parameters
// trainer_eval.c
int trainer_eval(struct trainer *t, struct err *e);
int trainer_probe(struct trainer *t, struct err *e); // the last batch's loss with the last weights
// trainer_report.c
void trainer_report_open(struct trainer *t);
void trainer_report_step(struct trainer *t, const struct step_done *d);
void trainer_report_eval(struct trainer *t);
void trainer_report_summary(struct trainer *t, const struct trainer_result *r);
void trainer_say(struct trainer *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Adds the time since *since_ns to a phase and moves *since_ns to now.
void trainer_phase(struct trainer *t, enum trainer_phase phase, int64_t *since_ns);

#endif
