/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program written for Mercury 2.4 that does what Mercury's headers allow and
 * its own tests leave out. It prints one line for each step: the name of the
 * step, the code, the values. No line of it depends on hg, and no line depends
 * on the transport: with hg and with Mercury the lines are those of the file
 * "expected", which names the steps that differ.
 */
#ifndef SEQUENCES_H
#define SEQUENCES_H

#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_macros.h>
#include <mercury_proc.h>
#include <mercury_proc_string.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two classes in this process: a server, and a client that has looked up its
 * address. The client listens, too. */
struct pair {
    const char *info; /* what the classes were opened with */
    hg_class_t *server, *client;
    hg_context_t *server_context, *client_context;
    hg_addr_t addr; /* the server, for the client */
};

void pair_open(
    struct pair *pair, const char *info, const struct hg_init_info *options);
void pair_close(struct pair *pair);

/* Makes progress in both contexts until *done is not 0, at most 10 s. Returns
 * whether it is. */
bool pair_until(struct pair *pair, const int *done);

/* Makes progress until nothing has happened for a while. */
void pair_settle(struct pair *pair);

/* Prints a step: its code, and values as printf does, which the call may
 * have changed. */
void say(const char *step, hg_return_t ret);
void say_with(const char *step, hg_return_t ret, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define say_values(step, call, ...) \
    do { \
        hg_return_t said = (call); \
        say_with(step, said, __VA_ARGS__); \
    } while (0)
void say_number(const char *step, long long value);

/* The name of a code. 23 has two names. */
const char *code(hg_return_t ret);

/* A callback that counts, and keeps what it got. */
struct done {
    int count;
    hg_return_t ret;
    enum hg_cb_type type;
    struct hg_cb_info info;
};
hg_return_t on_done(const struct hg_cb_info *info);

void steps_of_library(const char *info);
void steps_of_classes(const char *info);
void steps_of_contexts(const char *info);
void steps_of_registrations(const char *info);
void steps_of_addresses(const char *info);
void steps_of_procs(const char *info);
void steps_of_strings(const char *info);
void steps_of_handles(const char *info);
void steps_of_calls(const char *info);
void steps_of_inputs(const char *info);
void steps_of_buffers(const char *info);
void steps_of_callbacks(const char *info);
void steps_of_self_calls(const char *info);
void steps_of_bulk(const char *info);
void steps_of_transfers(const char *info);
void steps_of_na(const char *info);

#endif
