/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proc: the object that a proc function encodes into, decodes from or frees
 * with.
 *
 * All steps of a proc go through hg_proc_step, which hands out the next bytes
 * of the buffer, to write or to read: a compare and an add while there is
 * room. Whatever does not fit takes the slow path, which grows the buffer
 * of an encoder or fails. A failed proc keeps its code and has no room left,
 * so that every later step takes the slow path and gets the same code: a
 * user's proc that ignores a result can neither write nor read out of place.
 *
 * Invariants: pos <= end; a proc that frees, or has failed, has pos == end;
 * error is HG_SUCCESS while it has not failed; one that frees never fails.
 *
 * The engine cannot clear the user's struct before it decodes, whose size it
 * does not know; so after a failure nobody can tell from the struct what
 * was allocated. The proc itself keeps count of what decoding makes.
 *
 * Locking: none, a proc belongs to one thread at a time. What calls it knows
 * of messages and checksums in headers; this module does not.
 */
#ifndef HG_GEN_HG_PROC_H
#define HG_GEN_HG_PROC_H

#include "base/log.h"
#include "na/core.h"

struct hg_bulk_layer;

/* Bytes that grow, on the heap or, until they do, on somebody's stack. All
 * zeros is an empty one. */
struct hg_buf {
    unsigned char *data; /* NULL while capacity is 0 */
    size_t capacity;
    bool on_stack;
};

/* Free the memory, unless it is a stack's; the buffer is empty. */
HG_PRIVATE void hg_buf_fini(struct hg_buf *buf);

/* hg_buf_reserve for more than there is. */
HG_PRIVATE hg_return_t hg_buf_grow(
    struct hg_buf *buf, size_t capacity, size_t limit);

/* Make the capacity `capacity` at least, perhaps more, up to `limit`; what is
 * in the buffer stays, `data` may move. HG_MSGSIZE: the limit is smaller;
 * HG_NOMEM (both logged): the buffer is as before. */
static inline hg_return_t hg_buf_reserve(
    struct hg_buf *buf, size_t capacity, size_t limit)
{
    return HG_LIKELY(capacity <= buf->capacity)
        ? HG_SUCCESS
        : hg_buf_grow(buf, capacity, limit);
}

/* Something that decoding made, and how a failure unmakes it. */
struct hg_proc_kept {
    void *object;
    void (*release)(void *object);
};

#define HG_PROC_KEPT_FIRST 4

struct hg_proc {
    struct hg_proc_cursor cursor; /* first: the macros know it. Decoding never
                                 writes to its data */
    size_t limit;         /* what `end` may grow to, of an encoder with `buf` */
    hg_return_t error;    /* what the first failed step returned */
    bool keeps_const;     /* HG_FREE: const strings and bulk handles stay */
    bool keeps;           /* decoding for the engine: what it makes */
    const char *function; /* for log lines: what is called; NULL */
    struct hg_class *hg_class; /* of a call of the callback model; else NULL */
    struct hg_handle *handle;  /* likewise */
    struct hg_proc_own *own;   /* one of hg_proc_create*; NULL: a call's */
    struct hg_bulk_layer *layer; /* of bulk handles; NULL: the process's */
    struct na_addr *addr; /* of the other side of a call (borrowed); NULL */
    struct hg_buf *buf;   /* encoding: what grows; NULL: `end` is final */
    size_t reserve;       /* bytes of *buf in front of `data` */
    size_t kept_count;
    struct hg_buf kept_more; /* behind the first */
    struct hg_proc_kept kept_first[HG_PROC_KEPT_FIRST];
};

/* ---- A proc's life: the struct is the caller's, and stays in place ---- */

/* Encode into `buf` (borrowed while the proc is used), behind the first
 * `reserve` bytes and up to `limit` bytes with those (at least `reserve`), past
 * which steps fail with HG_MSGSIZE. On success buf->data has `reserve` bytes
 * at least, though it may move with each step. HG_NOMEM, HG_MSGSIZE
 * (logged). */
HG_PRIVATE hg_return_t hg_proc_init_encode(
    struct hg_proc *proc, struct hg_buf *buf, size_t reserve, size_t limit);

/* Decode `size` bytes at `data` (borrowed while the proc is used; may be NULL
 * where size is 0). hg_proc_finish_decode must follow what decodes. */
HG_PRIVATE void hg_proc_init_decode(
    struct hg_proc *proc, const void *data, size_t size);

/* A proc over `size` bytes at `data`, for what `op` does. */
HG_PRIVATE void hg_proc_init(
    struct hg_proc *proc, hg_proc_op_t op, unsigned char *data, size_t size);

/* Free what decoding made. Nothing follows. */
HG_PRIVATE void hg_proc_init_free(struct hg_proc *proc);

/* The other side of the call, for log lines. */
static inline const char *hg_proc_peer(const struct hg_proc *proc)
{
    return proc->addr != NULL && proc->addr->name != NULL ? proc->addr->name
                                                          : "a peer";
}

/* A line about the arguments of a call begins with function and peer. */
#define HG_PROC_SUBJECT "%s%s%s%s%s"
#define HG_PROC_SUBJECT_OF(proc) \
    (proc)->function != NULL ? "\"" : "", \
        (proc)->function != NULL ? (proc)->function : "", \
        (proc)->function != NULL ? "\" with " : "", \
        (proc)->function != NULL ? hg_proc_peer(proc) : "", \
        (proc)->function != NULL ? ": " : ""

/* Log, and keep for HG_Get_last_error_text, why arguments are refused. Those
 * that are decoded come from a peer: a warning. */
#define HG_PROC_EXPLAIN(proc, format, ...) \
    HG_LOG_EXPLAIN((proc)->cursor.op == HG_DECODE ? HG_LOG_LEVEL_WARNING \
                                                  : HG_LOG_LEVEL_ERROR, \
        "proc", HG_PROC_SUBJECT format, HG_PROC_SUBJECT_OF(proc), __VA_ARGS__)

/* ---- Its end ---- */

/* `ret` is what the proc function returned, and is returned again unless
 * HG_SUCCESS (logged, unless a step was); next comes a failure that the
 * function kept silent about; else how many bytes were encoded. */
HG_PRIVATE hg_return_t hg_proc_finish_encode(
    const struct hg_proc *proc, hg_return_t ret, size_t *size_p);

/* `ret` is what the proc function returned, and is returned again unless
 * HG_SUCCESS (logged, unless a step was); next comes a failure that the
 * function kept silent about; else HG_CHECKSUM_ERROR (logged) if bytes were
 * left undecoded. On failure all that decoding made is unmade, and the struct
 * decoded into has no meaning: it need not have been zeroed, and must not be
 * freed. */
HG_PRIVATE hg_return_t hg_proc_finish_decode(
    struct hg_proc *proc, hg_return_t ret);

/* ---- What decoding made ---- */

/* From now on a failed decoding calls `release` on `object`. HG_NOMEM
 * (logged): the proc has failed, and the object is released already. */
HG_PRIVATE hg_return_t hg_proc_keep(
    struct hg_proc *proc, void *object, void (*release)(void *object));

/* `object` is released by another now. */
HG_PRIVATE void hg_proc_forget(struct hg_proc *proc, const void *object);

/* ---- Steps ---- */

/* Whether there is a proc (logged if not). */
HG_PRIVATE bool hg_proc_is_there(const struct hg_proc *proc);

/* The first failure is what counts: keep `ret`, not HG_SUCCESS, and leave no
 * room. Returns the code to hand up. The caller has logged it. */
HG_PRIVATE hg_return_t hg_proc_fail(struct hg_proc *proc, hg_return_t ret);

/* A step was called with a NULL: fails with HG_INVALID_ARG (logged). `proc`
 * may be the NULL. */
HG_PRIVATE hg_return_t hg_proc_refuse(struct hg_proc *proc);

/* hg_proc_step where there is no room. */
HG_PRIVATE unsigned char *hg_proc_step_slow(struct hg_proc *proc, size_t size);

/* Whether a step of `size` bytes to or from `data` needs nothing but these;
 * else hg_proc_step_again does what it needs and calls `step`, which asked,
 * once more, or returns why not. */
static inline bool hg_proc_may_step(
    const struct hg_proc *proc, const void *data, size_t size)
{
    if (HG_UNLIKELY(proc == NULL) || HG_UNLIKELY(data == NULL))
        return false;
    return HG_LIKELY(size <= proc->cursor.end - proc->cursor.pos);
}
HG_NOINLINE HG_PRIVATE hg_return_t hg_proc_step_again(
    struct hg_proc *proc, void *data, size_t size, hg_proc_cb_t step);

/* The next `size` bytes, more than 0: to be written when encoding (valid until
 * the next step), to be read when decoding. NULL: return proc->error, which is
 * HG_SUCCESS when freeing. */
static inline unsigned char *hg_proc_step(struct hg_proc *proc, size_t size)
{
    unsigned char *bytes;

    assert(size > 0);
    if (HG_UNLIKELY(size > proc->cursor.end - proc->cursor.pos))
        return hg_proc_step_slow(proc, size);
    bytes = proc->cursor.data + proc->cursor.pos;
    proc->cursor.pos += size;
    return bytes;
}

#endif
