// SPDX-License-Identifier: Apache-2.0
// The names of everything that the native trainer has several of, one list each: a constant, and
// the word that users write. Options, tables of lib/nn, checkpoints and messages take both from
// here; tables are indexed by the constants.
#ifndef CONF_TRAIN_NAMES_H
#define CONF_TRAIN_NAMES_H

// constant, word, its fields with their defaults (train_model.h), what it is. A model is a row here
// and a function in lib/nn/models.c.
#define TRAIN_MODEL_NAMES(X)                                                                       \
    X(TRAIN_MLP, "mlp", "hidden=256,256", "layers fc1, fc2, … with ReLU between them")             \
    X(TRAIN_RESNET18, "resnet18", "stem=imagenet,width=64", "torchvision's")                       \
    X(TRAIN_RESNET34, "resnet34", "stem=imagenet,width=64", "torchvision's")                       \
    X(TRAIN_RESNET50, "resnet50", "stem=imagenet,width=64", "torchvision's")                       \
    X(TRAIN_VIT, "vit", "dim=192,depth=12,heads=3,mlp=4,patch=16", "timm's VisionTransformer")     \
    X(TRAIN_VIT_TINY, "vit_tiny", "dim=192,depth=12,heads=3,mlp=4,patch=16", "timm's")             \
    X(TRAIN_VIT_SMALL, "vit_small", "dim=384,depth=12,heads=6,mlp=4,patch=16", "timm's")           \
    X(TRAIN_VIT_BASE, "vit_base", "dim=768,depth=12,heads=12,mlp=4,patch=16", "timm's")            \
    X(TRAIN_LINFORMER, "linformer", "dim=128,depth=12,heads=8,mlp=4,patch=32,keys=64,pool=cls",    \
      "vit-pytorch's efficient ViT with Linformer")                                                \
    X(TRAIN_AIRBENCH, "airbench", "width=64,patch=2,divisor=9", "Jordan's airbench94")

// constant, word, smallest and largest value, what it is; those with words have theirs.
#define TRAIN_FIELD_NAMES(X)                                                                       \
    X(TRAIN_FIELD_HIDDEN, "hidden", 1, 65536, "widths of the hidden layers")                       \
    X(TRAIN_FIELD_STEM, "stem", 0, 0, "first layers: imagenet or cifar, as train.stem")            \
    X(TRAIN_FIELD_DIM, "dim", 1, 16384, "width of a token")                                        \
    X(TRAIN_FIELD_DEPTH, "depth", 1, 256, "blocks")                                                \
    X(TRAIN_FIELD_HEADS, "heads", 1, 1024, "heads of attention, which divide dim")                 \
    X(TRAIN_FIELD_MLP, "mlp", 1, 64, "width of a block's hidden layer, in dims")                   \
    X(TRAIN_FIELD_PATCH, "patch", 1, 256,                                                          \
      "pixels of a patch's side, which divide the image's; airbench: of a whitened patch")         \
    X(TRAIN_FIELD_KEYS, "keys", 1, 65536, "keys and values that are projected to")                 \
    X(TRAIN_FIELD_POOL, "pool", 0, 0, "what the head reads: cls, the class token, or mean")        \
    X(TRAIN_FIELD_WIDTH, "width", 1, 4096, "channels of the first blocks; later ones have more")   \
    X(TRAIN_FIELD_DIVISOR, "divisor", 1, 1000, "what the last layer's output is divided by")

#define TRAIN_POOL_NAMES(X) X(TRAIN_POOL_CLS, "cls") X(TRAIN_POOL_MEAN, "mean")

#define TRAIN_STEM_NAMES(X)                                                                        \
    X(TRAIN_STEM_IMAGENET, "imagenet") /* 7x7 with stride 2, and pooling */                        \
    X(TRAIN_STEM_CIFAR, "cifar")       /* 3x3 with stride 1 */

#define TRAIN_DATASET_NAMES(X)                                                                     \
    X(TRAIN_DATA_AUTO, "auto") /* by looking at `data`; without one: shapes */                     \
    X(TRAIN_DATA_SHAPES, "shapes")                                                                 \
    X(TRAIN_DATA_CIFAR10, "cifar10")         /* binary files of 3,073-byte records */              \
    X(TRAIN_DATA_IMAGEFOLDER, "imagefolder") /* a folder or tar of JPEGs by class */               \
    X(TRAIN_DATA_TAR, "tar")                 /* the same, in tar files */                          \
    X(TRAIN_DATA_WEBDATASET, "webdataset")   /* shards of stem.jpg and stem.cls */                 \
    X(TRAIN_DATA_PACKED, "packed")

#define TRAIN_DECODE_NAMES(X)                                                                      \
    X(TRAIN_DECODE_AUTO, "auto")     /* stream with a random part, else once */                    \
    X(TRAIN_DECODE_ONCE, "once")     /* into the packed form */                                    \
    X(TRAIN_DECODE_STREAM, "stream") /* each time an image is needed */

#define TRAIN_BAD_NAMES(X) X(TRAIN_BAD_REFUSE, "refuse") X(TRAIN_BAD_SKIP, "skip")

#define TRAIN_OPTIMIZER_NAMES(X) X(TRAIN_SGD, "sgd") X(TRAIN_ADAM, "adam") X(TRAIN_ADAMW, "adamw")

#define TRAIN_SCHEDULE_NAMES(X)                                                                    \
    X(TRAIN_CONSTANT, "constant")                                                                  \
    X(TRAIN_STEP, "step")                                                                          \
    X(TRAIN_MULTISTEP, "multistep")                                                                \
    X(TRAIN_EXPONENTIAL, "exponential")                                                            \
    X(TRAIN_COSINE, "cosine")                                                                      \
    X(TRAIN_LINEAR, "linear")                                                                      \
    X(TRAIN_ONECYCLE, "onecycle")                                                                  \
    X(TRAIN_TRIANGLE, "triangle")

// constant, word, what it is; its settings are in train_recipe.c.
#define TRAIN_RECIPE_NAMES(X)                                                                      \
    X(TRAIN_RECIPE_NONE, "none", "the defaults")                                                   \
    X(TRAIN_RECIPE_CIFAR10, "cifar10-resnet18", "a ResNet-18 on CIFAR-10 with Adam")               \
    X(TRAIN_RECIPE_IMAGENET, "imagenet-resnet", "PyTorch's example for ImageNet")                  \
    X(TRAIN_RECIPE_VIT, "vit-finetune", "a vision transformer from weights of other classes")      \
    X(TRAIN_RECIPE_CIFAR94, "cifar10-94",                                                          \
      "CIFAR-10 in 10 epochs, as airbench94; train.batch of all ranks together is 1024")

#define TRAIN_FILL_NAMES(X) X(TRAIN_FILL_ZERO, "zero") X(TRAIN_FILL_REFLECT, "reflect")

#define TRAIN_VIEWS_NAMES(X)                                                                       \
    X(TRAIN_VIEWS_ONE, "one")                                                                      \
    X(TRAIN_VIEWS_MIRROR, "mirror") /* and its mirror image */                                     \
    X(TRAIN_VIEWS_SHIFT, "shift")   /* and both shifted by a pixel, up and left, down and right */

#define TRAIN_DECAY_NAMES(X) X(TRAIN_DECAY_ALL, "all") X(TRAIN_DECAY_WEIGHTS, "weights")

#define TRAIN_NORMALIZE_NAMES(X)                                                                   \
    X(TRAIN_NORM_IMAGENET, "imagenet")                                                             \
    X(TRAIN_NORM_CIFAR10, "cifar10") X(TRAIN_NORM_NONE, "none")

#define TRAIN_KERNELS_NAMES(X) X(TRAIN_KERNELS_CPU, "cpu") X(TRAIN_KERNELS_REFERENCE, "reference")

#define TRAIN_DEVICE_NAMES(X)                                                                      \
    X(TRAIN_DEVICE_AUTO, "auto")                                                                   \
    X(TRAIN_DEVICE_CPU, "cpu") X(TRAIN_DEVICE_GPU, "gpu")

#define TRAIN_PLACEMENT_NAMES(X)                                                                   \
    X(TRAIN_PACKED, "packed")                                                                      \
    X(TRAIN_SPREAD, "spread") X(TRAIN_CLUSTER, "cluster") /* SageMaker's word for packed */

#define TRAIN_WIRE_NAMES(X) X(TRAIN_WIRE_F32, "f32") X(TRAIN_WIRE_BF16, "bf16")

#define TRAIN_RECOMPUTE_NAMES(X) X(TRAIN_RECOMPUTE_NONE, "none") X(TRAIN_RECOMPUTE_BLOCKS, "blocks")

#define TRAIN_COLLECTIVES_NAMES(X)                                                                 \
    X(TRAIN_COLLECTIVES_AUTO, "auto")                                                              \
    X(TRAIN_COLLECTIVES_NCCL, "nccl") X(TRAIN_COLLECTIVES_HOST, "host")

#define TRAIN_GRAPH_NAMES(X)                                                                       \
    X(TRAIN_GRAPH_AUTO, "auto") X(TRAIN_GRAPH_ON, "on") X(TRAIN_GRAPH_OFF, "off")

// A TOML file may have true and false without quotes.
#define TRAIN_ZERO_NAMES(X)                                                                        \
    X(TRAIN_ZERO_AUTO, "auto") X(TRAIN_ZERO_ON, "true") X(TRAIN_ZERO_OFF, "false")

// Collectives that are measured (--bench).
#define TRAIN_BENCH_NAMES(X)                                                                       \
    X(TRAIN_BENCH_NONE, "none")                                                                    \
    X(TRAIN_BENCH_ALL_REDUCE, "allreduce")                                                         \
    X(TRAIN_BENCH_ALL_GATHER, "all-gather")                                                        \
    X(TRAIN_BENCH_REDUCE_SCATTER, "reduce-scatter")                                                \
    X(TRAIN_BENCH_SENDRECV, "sendrecv") /* to the next rank, and from the one before */

#define TRAIN_DTYPE_NAMES(X)                                                                       \
    X(TRAIN_F32, "f32") X(TRAIN_TF32, "tf32") X(TRAIN_BF16, "bf16") X(TRAIN_F16, "f16")

// list of names, its enum, how many there are, the words
#define TRAIN_NAMES(X)                                                                             \
    X(TRAIN_MODEL_NAMES, train_model, TRAIN_MODELS, train_model_words)                             \
    X(TRAIN_FIELD_NAMES, train_field, TRAIN_FIELDS, train_field_words)                             \
    X(TRAIN_POOL_NAMES, train_pool, TRAIN_POOLS, train_pool_words)                                 \
    X(TRAIN_STEM_NAMES, train_stem, TRAIN_STEMS, train_stem_words)                                 \
    X(TRAIN_DATASET_NAMES, train_dataset, TRAIN_DATASETS, train_dataset_words)                     \
    X(TRAIN_DECODE_NAMES, train_decode, TRAIN_DECODES, train_decode_words)                         \
    X(TRAIN_BAD_NAMES, train_bad, TRAIN_BADS, train_bad_words)                                     \
    X(TRAIN_OPTIMIZER_NAMES, train_optimizer, TRAIN_OPTIMIZERS, train_optimizer_words)             \
    X(TRAIN_SCHEDULE_NAMES, train_schedule, TRAIN_SCHEDULES, train_schedule_words)                 \
    X(TRAIN_RECIPE_NAMES, train_recipe, TRAIN_RECIPES, train_recipe_words)                         \
    X(TRAIN_FILL_NAMES, train_fill, TRAIN_FILLS, train_fill_words)                                 \
    X(TRAIN_VIEWS_NAMES, train_views, TRAIN_VIEWS, train_views_words)                              \
    X(TRAIN_DECAY_NAMES, train_decay, TRAIN_DECAYS, train_decay_words)                             \
    X(TRAIN_NORMALIZE_NAMES, train_normalize, TRAIN_NORMALIZES, train_normalize_words)             \
    X(TRAIN_KERNELS_NAMES, train_kernels, TRAIN_KERNEL_SETS, train_kernels_words)                  \
    X(TRAIN_DEVICE_NAMES, train_device, TRAIN_DEVICES, train_device_words)                         \
    X(TRAIN_PLACEMENT_NAMES, train_placement, TRAIN_PLACEMENTS, train_placement_words)             \
    X(TRAIN_WIRE_NAMES, train_wire, TRAIN_WIRES, train_wire_words)                                 \
    X(TRAIN_COLLECTIVES_NAMES, train_collectives, TRAIN_COLLECTIVES, train_collectives_words)      \
    X(TRAIN_GRAPH_NAMES, train_graph, TRAIN_GRAPHS, train_graph_words)                             \
    X(TRAIN_ZERO_NAMES, train_zero, TRAIN_ZEROS, train_zero_words)                                 \
    X(TRAIN_BENCH_NAMES, train_bench, TRAIN_BENCHES, train_bench_words)                            \
    X(TRAIN_RECOMPUTE_NAMES, train_recompute, TRAIN_RECOMPUTES, train_recompute_words)             \
    X(TRAIN_DTYPE_NAMES, train_dtype, TRAIN_DTYPES, train_dtype_words)

#define TRAIN_NAME_FIRST(first, ...)       first
#define TRAIN_NAME_CONSTANT(constant, ...) constant,
#define TRAIN_NAME_WORD(constant, ...)     [constant] = TRAIN_NAME_FIRST(__VA_ARGS__, 0),
#define TRAIN_NAME_DECLARE(list, name, count, words)                                               \
    enum name { list(TRAIN_NAME_CONSTANT) count };                                                 \
    extern const char *const words[count + 1]; /* NULL-terminated */
TRAIN_NAMES(TRAIN_NAME_DECLARE)

#endif
