// SPDX-License-Identifier: Apache-2.0
// Private to lib/comm: the part of NCCL's interface that is used, found when the program runs. No
// header of NCCL's is needed: names, types and numbers are those that its documentation gives for
// 2.18, which later versions keep.
#ifndef COMM_NCCL_LIBRARY_H
#define COMM_NCCL_LIBRARY_H

#include "base/err.h"

#include <stddef.h>

enum {
    NCCL_VERSION_MIN = 21800,
    NCCL_ID_BYTES = 128,
    NCCL_PATH_BYTES_MAX = 4096,
    NCCL_VERSION_TEXT_BYTES = 32,
};

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 };
enum { NCCL_SUM = 0, NCCL_AVERAGE = 4 };
enum { NCCL_UINT8 = 1, NCCL_FLOAT32 = 7, NCCL_FLOAT64 = 8, NCCL_BFLOAT16 = 9 };
enum { NCCL_CONFIG_UNSET = -2147483647 - 1, NCCL_NO_COLOR = -1 };
#define NCCL_CONFIG_MAGIC 0xcafebeefu

struct nccl_id {
    char bytes[NCCL_ID_BYTES];
};

struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, ctas_min, ctas_max;
    const char *net_name;
    int split_share;
};

typedef struct ncclComm *nccl_comm;

// field, symbol, parameters
#define NCCL_CALLS(X)                                                                              \
    X(get_version, "ncclGetVersion", (int *version))                                               \
    X(get_id, "ncclGetUniqueId", (struct nccl_id * id))                                            \
    X(init, "ncclCommInitRankConfig",                                                              \
      (nccl_comm * c, int ranks, struct nccl_id id, int rank, const struct nccl_config *config))   \
    X(split, "ncclCommSplit",                                                                      \
      (nccl_comm c, int color, int key, nccl_comm *out, const struct nccl_config *config))         \
    X(get_async_error, "ncclCommGetAsyncError", (nccl_comm c, int *error))                         \
    X(abort, "ncclCommAbort", (nccl_comm c))                                                       \
    X(group_start, "ncclGroupStart", (void))                                                       \
    X(group_end, "ncclGroupEnd", (void))                                                           \
    X(all_reduce, "ncclAllReduce",                                                                 \
      (const void *from, void *to, size_t n, int type, int op, nccl_comm c, void *stream))         \
    X(reduce, "ncclReduce",                                                                        \
      (const void *from, void *to, size_t n, int type, int op, int root, nccl_comm c,              \
       void *stream))                                                                              \
    X(reduce_scatter, "ncclReduceScatter",                                                         \
      (const void *from, void *to, size_t n, int type, int op, nccl_comm c, void *stream))         \
    X(all_gather, "ncclAllGather",                                                                 \
      (const void *from, void *to, size_t n, int type, nccl_comm c, void *stream))                 \
    X(broadcast, "ncclBroadcast",                                                                  \
      (const void *from, void *to, size_t n, int type, int root, nccl_comm c, void *stream))       \
    X(send, "ncclSend",                                                                            \
      (const void *from, size_t n, int type, int peer, nccl_comm c, void *stream))                 \
    X(recv, "ncclRecv", (void *to, size_t n, int type, int peer, nccl_comm c, void *stream))

struct nccl_library {
    void *handle;
    char path[NCCL_PATH_BYTES_MAX];
    int version; // 22809 is 2.28.9
#define X(field, symbol, params) int(*field) params;
    NCCL_CALLS(X)
#undef X
    const char *(*error_text)(int code);    // ncclGetErrorString
    const char *(*last_error)(nccl_comm c); // ncclGetLastError
};

// The first usable one. ERR_NOT_FOUND: none, and e says why not, or that there is none at all;
// ERR_CONFIG: the one that $DTCTL_NCCL names cannot be used.
int nccl_library_open(struct nccl_library *l, char *const *env, struct err *e);
void nccl_library_close(struct nccl_library *l);
// "2.28.9" of 22809.
const char *nccl_version_text(char out[NCCL_VERSION_TEXT_BYTES], int version);

#endif
