// SPDX-License-Identifier: Apache-2.0
// PyTorch's TCPStore protocol, numbers only: shared by the server and the client. Integers on the
// wire are little-endian, text and values are u64 length + bytes. Facts: PyTorch >= 2.2 (columns
// "modern"), 2.1 and <= 2.0 have other numbers for the same requests (store_requests.c).
#ifndef TCPSTORE_STORE_PROTOCOL_H
#define TCPSTORE_STORE_PROTOCOL_H

#define STORE_WIRE_MAGIC 0x3C85F7CEu

enum store_op { // numbers of the modern protocol
    STORE_OP_VALIDATE,
    STORE_OP_SET,
    STORE_OP_COMPARE_SET,
    STORE_OP_GET,
    STORE_OP_ADD,
    STORE_OP_CHECK,
    STORE_OP_WAIT,
    STORE_OP_GETNUMKEYS,
    STORE_OP_DELETE_KEY,
    STORE_OP_APPEND,
    STORE_OP_MULTI_GET,
    STORE_OP_MULTI_SET,
    STORE_OP_CANCEL_WAIT,
    STORE_OP_PING,
    STORE_OP_QUEUE_PUSH,
    STORE_OP_QUEUE_POP,
    STORE_OP_QUEUE_LEN,
    STORE_OP_LIST_KEYS,
    STORE_OP_BARRIER,
    STORE_OP_COUNT
};

enum { STORE_WIRE_READY = 0, STORE_WIRE_NOT_READY = 1 };            // CHECK
enum { STORE_WIRE_STOP_WAITING = 0, STORE_WIRE_WAIT_CANCELED = 1 }; // WAIT, BARRIER, CANCEL_WAIT

#endif
