/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Memory and logging ================================================ */
/**
 * @defgroup hg_log Memory and logging
 *
 * The library writes log lines to stderr, by default only errors. Each line has
 * a level and a subsystem. The environment variables HG_LOG_LEVEL and
 * HG_LOG_SUBSYS, or the functions below, select lines.
 *
 * - An error is a mistake of this process, or something that it asked for and
 *   that failed. Each failed lookup is such an error, also if the peer is the
 *   cause. Messages of peers cause warnings only, and so does a call that is
 *   refused. HG_Get_counters() and NA_Get_counter() count what peers cause.
 * - Each log statement writes its 1st, 2nd, 4th, 8th, ... line, with the count.
 *   A statement of level error also writes its first 64 lines. A call with a
 *   NULL or destroyed class or context is always logged. At level debug all
 *   lines are written.
 * - Writing to stderr does not block. If a pipe, socket or terminal is full,
 *   the line is dropped, and the next line tells how many were.
 *
 * See hg-debug(7).
 * @{
 */

/**
 * The functions that the library allocates memory with.
 *
 * They replace malloc, realloc and free, and must be thread safe. They run in
 * any thread, also under locks of the library, and must not call the library.
 */
struct hg_allocator {
    size_t size; /**< sizeof(struct hg_allocator): HG_ALLOCATOR_INITIALIZER */
    void *(*malloc_fn)(size_t size, void *arg);             /**< as malloc */
    void *(*realloc_fn)(void *ptr, size_t size, void *arg); /**< as realloc */
    void (*free_fn)(void *ptr, void *arg);                  /**< as free */
    void *arg; /**< passed to all three */
};

/** The allocator of these three functions, with `arg` for each. */
#define HG_ALLOCATOR_INITIALIZER(malloc_fn, realloc_fn, free_fn, arg) \
    { \
        sizeof(struct hg_allocator), malloc_fn, realloc_fn, free_fn, arg \
    }

/**
 * Set the allocator of the library.
 *
 * A block is freed with the allocator that is set then. So call it before any
 * other function of the library, or when all objects are freed.
 *
 * @param allocator  copied; NULL: malloc, realloc and free.
 * @retval HG_SUCCESS      the allocator is set.
 * @retval HG_INVALID_ARG  a member is missing.
 */
HG_EXPORT hg_return_t HG_Set_allocator(const struct hg_allocator *allocator);

#if !HG_API_STRICT
/** The levels of log lines. */
enum {
    HG_LOG_LEVEL_NONE = 0,    /**< no lines */
    HG_LOG_LEVEL_ERROR = 1,   /**< errors; the default */
    HG_LOG_LEVEL_WARNING = 2, /**< and warnings */
    HG_LOG_LEVEL_INFO = 3,    /**< and information */
    HG_LOG_LEVEL_DEBUG = 4    /**< everything */
};
#endif

/**
 * Set the level up to which lines are written.
 *
 * It overrides HG_LOG_LEVEL of the environment.
 *
 * @param level  "none", "error", "warning", "info" or "debug", or a word of
 *               Mercury ("err", "min_debug"); case does not matter.
 * @retval HG_SUCCESS      the level is set.
 * @retval HG_INVALID_ARG  NULL, or another word.
 */
HG_EXPORT hg_return_t HG_Set_log_level(const char *level);

/**
 * Select the subsystems that log.
 *
 * It overrides HG_LOG_SUBSYS of the environment. The subsystems are
 *
 * @code
 * addr bulk checksum clock cls ctx lock log mem msg op proc rma rpc sm waker
 * zmq ofi mpi
 * @endcode
 *
 * and those of the application's plugins. Of Mercury's names, "hg", "na", "all"
 * and "hg_all" mean all; "poll", "perf" and others without a subsystem here are
 * ignored. A warning names each unknown word. If a list has no subsystem of
 * this table, all log.
 *
 * @param subsys  words with commas or blanks between them, such as "rpc,bulk".
 *                "~zmq" switches one off. NULL or "": all. Copied.
 * @retval HG_SUCCESS   the subsystems are selected.
 * @retval HG_OVERFLOW  longer than 255 characters.
 */
HG_EXPORT hg_return_t HG_Set_log_subsys(const char *subsys);

/**
 * Pass log lines to a function instead of stderr.
 *
 * With HG_API_VERSION 2 this name is HG_Set_log_func2(), which has Mercury's
 * signature.
 *
 * The function runs in any thread, during any call, under locks of the library.
 * It must not call the library.
 *
 * @param func  gets the level, the subsystem and the line without a newline;
 *              NULL: stderr.
 * @param arg   passed to it.
 */
HG_EXPORT void HG_Set_log_func(
    void (*func)(int level, const char *subsys, const char *line, void *arg),
    void *arg);
/** @} */
