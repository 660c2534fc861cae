/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Memory and logging ================================================ */

/* Replaces malloc, realloc and free for everything the library allocates.
 * `arg` is passed through. The functions must be thread safe. */
struct hg_allocator {
    size_t size; /* sizeof(struct hg_allocator) */
    void *(*malloc_fn)(size_t size, void *arg);
    void *(*realloc_fn)(void *ptr, size_t size, void *arg);
    void (*free_fn)(void *ptr, void *arg);
    void *arg;
};

/* Copied. Call before anything else of the library, or when nothing of it is
 * left: a block is freed with the allocator that is set then. NULL restores the
 * system's heap. HG_INVALID_ARG: a member is missing. */
HG_EXPORT hg_return_t HG_Set_allocator(const struct hg_allocator *allocator);

/* Each line has a level. An error is what this process did wrong or can no
 * longer do. Lines that a peer causes are warnings, and are counted
 * (HG_Get_counters, NA_Get_counter).
 *
 * Each log statement writes its 1st, 2nd, 4th, 8th ... line, with the count.
 * An error statement also writes its first 64 lines. A call with a NULL or
 * destroyed class or context is logged every time. At level debug every line is
 * written. Writing to stderr does not block: a line that a full pipe, socket or
 * terminal does not take is dropped, and the next line is preceded by the
 * number of dropped lines. */
#if !HG_API_STRICT
enum {
    HG_LOG_LEVEL_NONE = 0,
    HG_LOG_LEVEL_ERROR = 1, /* the default */
    HG_LOG_LEVEL_WARNING = 2,
    HG_LOG_LEVEL_INFO = 3,
    HG_LOG_LEVEL_DEBUG = 4
};
#endif

/* "none", "error", "warning", "info" or "debug", or another of Mercury's words
 * ("err", "min_debug"), in any case of the letters. Overrides HG_LOG_LEVEL of
 * the environment. HG_INVALID_ARG for another word. */
HG_EXPORT hg_return_t HG_Set_log_level(const char *level);

/* Choose the subsystems that log: a list like "rpc,bulk", or "~zmq" for all but
 * one; NULL or "" for all. Overrides HG_LOG_SUBSYS of the environment. The
 * subsystems are
 *
 *     addr bulk checksum clock cls ctx lock log mem msg op proc rma rpc sm
 *     waker zmq ofi mpi
 *
 * and those of the application's own plugins. Of Mercury's names, "hg", "na",
 * "all" and "hg_all" stand for all; those without a subsystem here ("poll",
 * "perf") are ignored. A warning names each other word. A list without any
 * subsystem of this table leaves all on.
 * Copied. HG_OVERFLOW: longer than 255 characters. */
HG_EXPORT hg_return_t HG_Set_log_subsys(const char *subsys);

/* Deliver lines (without newline) to `func` instead of stderr; NULL restores
 * stderr. `func` may run on any thread, during any call, under locks of the
 * library: it must not call the library back. */
HG_EXPORT void HG_Set_log_func(
    void (*func)(int level, const char *subsys, const char *line, void *arg),
    void *arg);
