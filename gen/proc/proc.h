/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proc: the object that a proc function uses to encode, decode or free.
 *
 * All steps of a proc go through hg_proc_step, which returns the next bytes of
 * the buffer, to write or read: a compare and an add while the buffer has
 * space. Otherwise the slow path grows the buffer of an encoder, or fails. A
 * failed proc stores its error code and has no space left, so that each later
 * step takes the slow path and gets the same code: if a user's proc ignores a
 * result, it still cannot read or write out of bounds.
 *
 * Invariants: pos <= end; a proc that frees, or has failed, has pos == end;
 * error is HG_SUCCESS while it has not failed; a proc that frees never fails.
 *
 * The library does not know the size of the user's struct and so cannot clear
 * it before decoding. After a failure the struct does not show what was
 * allocated. Therefore the proc records what decoding allocates. The record of
 * an input outlives the proc: the handle of the call owns it.
 *
 * Locking: none, a proc belongs to one thread at a time. This module knows
 * neither messages nor checksums in headers; its callers do.
 */
#ifndef HG_GEN_HG_PROC_H
#define HG_GEN_HG_PROC_H

#include "base/log.h"
#include "na/core.h"

struct hg_bulk_layer;

/* A growing buffer, on the heap or initially on the stack of a caller. A zeroed
 * struct is an empty buffer. */
struct hg_buf {
    unsigned char *data; /* NULL while capacity is 0 */
    size_t capacity;
    bool on_stack;
};

/* Free the memory unless it is on a stack; the buffer becomes empty. */
HG_PRIVATE void hg_buf_fini(struct hg_buf *buf);

/* The slow path of hg_buf_reserve. */
HG_PRIVATE hg_return_t hg_buf_grow(
    struct hg_buf *buf, size_t capacity, size_t limit);

/* Increase the capacity to at least `capacity`, up to `limit`. The content
 * stays, `data` may move. HG_MSGSIZE: the limit is smaller; HG_NOMEM (both
 * logged): the buffer is unchanged. */
static inline hg_return_t hg_buf_reserve(
    struct hg_buf *buf, size_t capacity, size_t limit)
{
    return HG_LIKELY(capacity <= buf->capacity)
        ? HG_SUCCESS
        : hg_buf_grow(buf, capacity, limit);
}

enum hg_proc_fate {
    HG_PROC_HOLD,    /* a record has it: the application may still free it */
    HG_PROC_RELEASE, /* free it, unless the application has */
    HG_PROC_DROP     /* the record does not have it any more */
};

/* An object that decoding allocated. */
struct hg_proc_kept {
    void *object; /* NULL: it was freed */
    void (*settle)(void *object, enum hg_proc_fate fate);
};

#define HG_PROC_KEPT_FIRST 4

/* The objects that decoding an input allocated. */
struct hg_proc_record {
    struct hg_proc_record *next;
    size_t count;
    size_t at; /* of the object that was removed last */
    struct hg_proc_kept kept[];
};

typedef _Atomic(struct hg_proc_record *) hg_proc_records_t;

struct hg_proc {
    struct hg_proc_cursor cursor; /* first: the macros know it. Decoding never
                                 writes to its data */
    size_t limit;      /* maximum of `end` of an encoder with `buf` */
    hg_return_t error; /* what the first failed step returned */
    bool keeps_const;  /* HG_FREE: const strings and bulk handles stay */
    bool keeps;        /* decoding for the library: record allocated objects */
    const char *function; /* name of the called function for log lines; NULL */
    /* The class of a call of the callback model; else NULL. */
    struct hg_class *hg_class;
    struct hg_handle *handle; /* likewise */
    /* Set by hg_proc_create*; NULL: the proc of a call. */
    struct hg_proc_own *own;
    /* Of bulk handles; NULL: that of the request model. */
    struct hg_bulk_layer *layer;
    /* Address of the other side of a call (borrowed); NULL. */
    struct na_addr *addr;
    struct hg_buf *buf; /* encoding: the buffer to grow; NULL: `end` is final */
    size_t reserve;     /* bytes of *buf in front of `data` */
    hg_proc_records_t *owner; /* decoding: of the allocated objects; NULL */
    size_t kept_count;
    struct hg_buf kept_more; /* behind the first */
    struct hg_proc_kept kept_first[HG_PROC_KEPT_FIRST];
};

/* ---- A proc's life: the struct is the caller's, and stays in place ---- */

/* Encode into `buf` (borrowed while the proc is used), after the first
 * `reserve` bytes, and up to `limit` bytes in all (at least `reserve`); beyond
 * that steps fail with HG_MSGSIZE. On success buf->data has at least `reserve`
 * bytes, but may move with each step. HG_NOMEM, HG_MSGSIZE (logged). */
HG_PRIVATE hg_return_t hg_proc_init_encode(
    struct hg_proc *proc, struct hg_buf *buf, size_t reserve, size_t limit);

/* Decode `size` bytes at `data` (borrowed while the proc is used; NULL if size
 * is 0). hg_proc_finish_decode must be called after decoding. */
HG_PRIVATE void hg_proc_init_decode(
    struct hg_proc *proc, const void *data, size_t size);

/* A proc with `size` bytes at `data` for `op`. */
HG_PRIVATE void hg_proc_init(
    struct hg_proc *proc, hg_proc_op_t op, unsigned char *data, size_t size);

/* A proc that frees what decoding allocated. It needs no finish. */
HG_PRIVATE void hg_proc_init_free(struct hg_proc *proc);

/* The other side of the call, for log lines. */
static inline const char *hg_proc_peer(const struct hg_proc *proc)
{
    return proc->addr != NULL && proc->addr->name != NULL ? proc->addr->name
                                                          : "a peer";
}

/* Log lines about the arguments of a call begin with function and peer. */
#define HG_PROC_SUBJECT "%s%s%s%s%s"
#define HG_PROC_SUBJECT_OF(proc) \
    (proc)->function != NULL ? "\"" : "", \
        (proc)->function != NULL ? (proc)->function : "", \
        (proc)->function != NULL ? "\" with " : "", \
        (proc)->function != NULL ? hg_proc_peer(proc) : "", \
        (proc)->function != NULL ? ": " : ""

/* Log why arguments are refused, and keep that for HG_Get_last_error_text().
 * Decoded arguments come from a peer: a warning. */
#define HG_PROC_EXPLAIN(proc, format, ...) \
    HG_LOG_EXPLAIN((proc)->cursor.op == HG_DECODE ? HG_LOG_LEVEL_WARNING \
                                                  : HG_LOG_LEVEL_ERROR, \
        "proc", HG_PROC_SUBJECT format, HG_PROC_SUBJECT_OF(proc), __VA_ARGS__)

/* ---- Its end ---- */

/* Finish encoding; `ret` is the result of the proc function. Returns `ret` if
 * it is not HG_SUCCESS (logged, unless a step was), else a failure that the
 * function ignored; else sets the number of encoded bytes. */
HG_PRIVATE hg_return_t hg_proc_finish_encode(
    const struct hg_proc *proc, hg_return_t ret, size_t *size_p);

/* Finish decoding; `ret` is the result of the proc function. Returns `ret` if
 * it is not HG_SUCCESS (logged, unless a step was), else a failure that the
 * function ignored, else HG_CHECKSUM_ERROR (logged) if bytes were left
 * undecoded, or HG_NOMEM (logged) if `owner` is set and the objects cannot be
 * recorded. On failure all allocated objects are released, and the decoded
 * struct is invalid: it need not have been zeroed, and must not be freed. */
HG_PRIVATE hg_return_t hg_proc_finish_decode(
    struct hg_proc *proc, hg_return_t ret);

/* ---- What decoding made ---- */

/* Record an object: if decoding fails, it is released. HG_NOMEM (logged): the
 * proc has failed, and the object was released. */
HG_PRIVATE hg_return_t hg_proc_keep(struct hg_proc *proc, void *object,
    void (*settle)(void *object, enum hg_proc_fate fate));

/* Remove an object from the record; another module releases it. */
HG_PRIVATE void hg_proc_forget(struct hg_proc *proc, const void *object);

/* Settle the objects of a list of records, which may be NULL, and free it. */
HG_PRIVATE void hg_proc_record_settle(
    struct hg_proc_record *record, enum hg_proc_fate fate);

/* Remove an object from a list of records; another module releases it. */
HG_PRIVATE void hg_proc_record_forget(
    struct hg_proc_record *record, const void *object);

/* ---- Steps ---- */

/* Whether the proc is not NULL (logged if it is). */
HG_PRIVATE bool hg_proc_is_there(const struct hg_proc *proc);

/* Fail with `ret`, unless the proc has failed before; no space is left
 * afterwards. Returns the code of the first failure. The caller has logged
 * it. */
HG_PRIVATE hg_return_t hg_proc_fail(struct hg_proc *proc, hg_return_t ret);

/* A step got NULL: fail with HG_INVALID_ARG (logged). `proc` may be NULL. */
HG_PRIVATE hg_return_t hg_proc_refuse(struct hg_proc *proc);

/* The slow path of hg_proc_step. */
HG_PRIVATE unsigned char *hg_proc_step_slow(struct hg_proc *proc, size_t size);

/* Whether a step of `size` bytes to or from `data` needs only those bytes.
 * Otherwise hg_proc_step_again does the rest and calls `step` again, or returns
 * an error. */
static inline bool hg_proc_may_step(
    const struct hg_proc *proc, const void *data, size_t size)
{
    if (HG_UNLIKELY(proc == NULL) || HG_UNLIKELY(data == NULL))
        return false;
    return HG_LIKELY(size <= proc->cursor.end - proc->cursor.pos);
}
HG_NOINLINE HG_PRIVATE hg_return_t hg_proc_step_again(
    struct hg_proc *proc, void *data, size_t size, hg_proc_cb_t step);

/* The next `size` bytes, more than 0: to write when encoding (valid until the
 * next step), to read when decoding. NULL: return proc->error, which is
 * HG_SUCCESS when freeing. */
static inline unsigned char *hg_proc_step(struct hg_proc *proc, size_t size)
{
    unsigned char *bytes;

    HG_ASSERT(size > 0);
    if (HG_UNLIKELY(size > proc->cursor.end - proc->cursor.pos))
        return hg_proc_step_slow(proc, size);
    bytes = proc->cursor.data + proc->cursor.pos;
    proc->cursor.pos += size;
    return bytes;
}

#endif
