// SPDX-License-Identifier: Apache-2.0
// The names of everything that the native trainer has several of, one list each: a constant, and
// the word that users write. Options, tables of lib/nn, checkpoints and messages take both from
// here; tables are indexed by the constants.
#ifndef CONF_TRAIN_NAMES_H
#define CONF_TRAIN_NAMES_H

#define TRAIN_MODEL_NAMES(X)                                                                       \
    X(TRAIN_MLP, "mlp")                                                                            \
    X(TRAIN_RESNET18, "resnet18")                                                                  \
    X(TRAIN_RESNET34, "resnet34") X(TRAIN_RESNET50, "resnet50")

#define TRAIN_STEM_NAMES(X)                                                                        \
    X(TRAIN_STEM_IMAGENET, "imagenet") /* 7x7 with stride 2, and pooling */                        \
    X(TRAIN_STEM_CIFAR, "cifar")       /* 3x3 with stride 1 */

#define TRAIN_DATASET_NAMES(X)                                                                     \
    X(TRAIN_DATA_AUTO, "auto") /* by looking at `data`; without one: shapes */                     \
    X(TRAIN_DATA_SHAPES, "shapes")                                                                 \
    X(TRAIN_DATA_CIFAR10, "cifar10")         /* binary files of 3,073-byte records */              \
    X(TRAIN_DATA_IMAGEFOLDER, "imagefolder") /* a folder or tar of JPEGs by class */               \
    X(TRAIN_DATA_PACKED, "packed")

#define TRAIN_OPTIMIZER_NAMES(X) X(TRAIN_SGD, "sgd") X(TRAIN_ADAM, "adam") X(TRAIN_ADAMW, "adamw")

#define TRAIN_SCHEDULE_NAMES(X)                                                                    \
    X(TRAIN_CONSTANT, "constant") X(TRAIN_STEP, "step") X(TRAIN_COSINE, "cosine")

#define TRAIN_DECAY_NAMES(X) X(TRAIN_DECAY_ALL, "all") X(TRAIN_DECAY_WEIGHTS, "weights")

#define TRAIN_NORMALIZE_NAMES(X)                                                                   \
    X(TRAIN_NORM_IMAGENET, "imagenet")                                                             \
    X(TRAIN_NORM_CIFAR10, "cifar10") X(TRAIN_NORM_NONE, "none")

#define TRAIN_KERNELS_NAMES(X) X(TRAIN_KERNELS_CPU, "cpu") X(TRAIN_KERNELS_REFERENCE, "reference")

// list of names, its enum, how many there are, the words
#define TRAIN_NAMES(X)                                                                             \
    X(TRAIN_MODEL_NAMES, train_model, TRAIN_MODELS, train_model_words)                             \
    X(TRAIN_STEM_NAMES, train_stem, TRAIN_STEMS, train_stem_words)                                 \
    X(TRAIN_DATASET_NAMES, train_dataset, TRAIN_DATASETS, train_dataset_words)                     \
    X(TRAIN_OPTIMIZER_NAMES, train_optimizer, TRAIN_OPTIMIZERS, train_optimizer_words)             \
    X(TRAIN_SCHEDULE_NAMES, train_schedule, TRAIN_SCHEDULES, train_schedule_words)                 \
    X(TRAIN_DECAY_NAMES, train_decay, TRAIN_DECAYS, train_decay_words)                             \
    X(TRAIN_NORMALIZE_NAMES, train_normalize, TRAIN_NORMALIZES, train_normalize_words)             \
    X(TRAIN_KERNELS_NAMES, train_kernels, TRAIN_KERNEL_SETS, train_kernels_words)

#define TRAIN_NAME_CONSTANT(constant, word) constant,
#define TRAIN_NAME_WORD(constant, word)     [constant] = (word),
#define TRAIN_NAME_DECLARE(list, name, count, words)                                               \
    enum name { list(TRAIN_NAME_CONSTANT) count };                                                 \
    extern const char *const words[count + 1]; /* NULL-terminated */
TRAIN_NAMES(TRAIN_NAME_DECLARE)

#endif
