/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Return codes ====================================================== */

/**
 * @defgroup hg_codes Return codes
 *
 * Functions return HG_SUCCESS (0) or the code of the failure. A log line tells
 * the cause of a mistake or of a failed lookup. HG_Get_last_error_text() tells
 * that of a failed call, which the default level does not log.
 *
 * NA and HG share the codes from 0 to 24: NA_TIMEOUT equals HG_TIMEOUT.
 *
 * Any function may return these codes, listed in its contract or not:
 *
 * - HG_INVALID_ARG: an object is NULL or destroyed.
 * - HG_FAULT: in a child of fork, the object belongs to the parent.
 * - HG_NOMEM: out of memory.
 * @{
 */

/** The codes of NA. */
enum na_return {
#if HG_API_VERSION == 2
    /* Mercury's names for 3, 16 and 23. They stand first so that a debugger
     * prints these. */
    NA_INTERRUPT = 3,
    NA_OPNOTSUPPORTED = 16,
    NA_HOSTFIREWALL = 23,
#endif
    NA_SUCCESS = 0,    /**< the function succeeded */
    NA_PERMISSION = 1, /**< the peer, or the flags of memory, forbid it */
    NA_NOENTRY = 2,    /**< no such object, name or operation */
    NA_INTR = 3,       /**< a signal ended the wait */
    NA_AGAIN = 4,      /**< not accepted: a limit, or the peer is ending */
    NA_NOMEM = 5,      /**< out of memory */
    NA_ACCESS = 6,     /**< the operating system denies access */
    /** The object is unusable, as in a child of fork. Of a transfer: memory of
     * one side cannot be accessed; see hg-bulk(7). */
    NA_FAULT = 7,
    NA_BUSY = 8,            /**< the object is in use */
    NA_EXIST = 9,           /**< it exists already */
    NA_NODEV = 10,          /**< no such device or interface */
    NA_INVALID_ARG = 11,    /**< an argument is wrong */
    NA_PROTOCOL_ERROR = 12, /**< a peer uses another protocol, or breaks it */
    NA_OVERFLOW = 13,       /**< out of the range of an object */
    NA_MSGSIZE = 14,        /**< a message or a buffer has the wrong size */
    NA_PROTONOSUPPORT = 15, /**< no transport supports this protocol */
    NA_OPNOTSUPPORT = 16,   /**< the transport or object does not support it */
    NA_ADDRINUSE = 17,      /**< another process listens on this address */
    NA_ADDRNOTAVAIL = 18,   /**< the address does not belong to this host */
    NA_HOSTUNREACH = 19,    /**< the peer was never reached */
    NA_TIMEOUT = 20,        /**< not done within the given time */
    NA_CANCELED = 21,       /**< canceled by this side or the peer */
    NA_IO_ERROR = 22,       /**< the system or a library failed */
    /** The connection to the peer is lost. Its address is dead: look the peer
     * up again. */
    NA_DISCONNECT = 23,
    NA_RETURN_MAX = 24, /**< one more than the last of Mercury's codes of NA */
    /** A message or its arguments changed on the way, or some arguments were
     * not decoded. */
    NA_CHECKSUM_ERROR = 24
};

/** The codes of HG: those of NA, and two more. */
enum hg_return {
#if HG_API_VERSION == 2
    HG_INTERRUPT = NA_INTERRUPT,
    HG_OPNOTSUPPORTED = NA_OPNOTSUPPORTED,
    HG_HOSTFIREWALL = NA_HOSTFIREWALL,
#endif
    HG_SUCCESS = NA_SUCCESS,
    HG_PERMISSION = NA_PERMISSION,
    HG_NOENTRY = NA_NOENTRY,
    HG_INTR = NA_INTR,
    HG_AGAIN = NA_AGAIN,
    HG_NOMEM = NA_NOMEM,
    HG_ACCESS = NA_ACCESS,
    HG_FAULT = NA_FAULT,
    HG_BUSY = NA_BUSY,
    HG_EXIST = NA_EXIST,
    HG_NODEV = NA_NODEV,
    HG_INVALID_ARG = NA_INVALID_ARG,
    HG_PROTOCOL_ERROR = NA_PROTOCOL_ERROR,
    HG_OVERFLOW = NA_OVERFLOW,
    HG_MSGSIZE = NA_MSGSIZE,
    HG_PROTONOSUPPORT = NA_PROTONOSUPPORT,
    HG_OPNOTSUPPORT = NA_OPNOTSUPPORT,
    HG_ADDRINUSE = NA_ADDRINUSE,
    HG_ADDRNOTAVAIL = NA_ADDRNOTAVAIL,
    HG_HOSTUNREACH = NA_HOSTUNREACH,
    HG_TIMEOUT = NA_TIMEOUT,
    HG_CANCELED = NA_CANCELED,
    HG_IO_ERROR = NA_IO_ERROR,
    HG_DISCONNECT = NA_DISCONNECT,
    HG_CHECKSUM_ERROR = NA_CHECKSUM_ERROR,
    HG_NA_ERROR = 25,    /**< the network layer gave no cause */
    HG_OTHER_ERROR = 26, /**< for applications: none of the others */
    HG_RETURN_MAX = 27   /**< one more than the largest code */
};

#if HG_API_VERSION == 1
/** A code of NA: int under HG_API_VERSION 1, the enum under 2. */
typedef int na_return_t;
/** A code of HG: int under HG_API_VERSION 1, the enum under 2. */
typedef int hg_return_t;
#else
typedef enum na_return na_return_t;
typedef enum hg_return hg_return_t;
#endif

/**
 * Get a short text for a code of NA.
 *
 * @param ret  any number.
 * @return the text, never NULL; "unknown error" for a number that is no code.
 */
NA_EXPORT const char *NA_Error_to_string(na_return_t ret);

/**
 * Get a short text for a code.
 *
 * @param ret  any number.
 * @return the text, never NULL; "unknown error" for a number that is no code.
 */
HG_EXPORT const char *HG_Error_to_string(hg_return_t ret);

/**
 * Get the reason why the last call of this thread failed.
 *
 * The text names the function and the cause. Once the call was sent it also
 * names the peer, and includes the text that the peer sent, if any. It is the
 * same at each log level.
 *
 * Which functions change it:
 *
 * - HG_Forward() and HG_Forward_timed() of the request model, HG_Wait(),
 *   HG_Wait_all(), HG_Forward_wait(), NA_Addr_lookup_wait(), and NAME_call and
 *   NAME_start of MERCURY_GEN_RPC_STUB() first clear it.
 * - Functions that start a call, and NA_Addr_lookup_wait(), set it whenever
 *   they fail.
 * - The waits set it when a call has failed or the request is unknown. They do
 *   not set it when HG_TIMEOUT or HG_INTR means that the call goes on.
 * - HG_Bulk_pull(), HG_Bulk_push(), HG_Bulk_pull_timed(), HG_Bulk_push_timed(),
 *   HG_Bulk_pipeline_pull() and HG_Bulk_pipeline_push() set it whenever they
 *   fail, unless with a code of the application's callback. HG_Bulk_wait() sets
 *   it when a transfer has failed.
 * - A lookup of NA_Addr_lookup() or of the callback model that fails sets it to
 *   the cause before its callback runs; to "" if the cause is not known.
 * - Other functions never clear it. They set it when they refuse an argument or
 *   fail to decode.
 *
 * @return the text, never NULL; "" without a failure.
 * @threads Each thread has its own text.
 * @lifetime Until the next call of the library in this thread.
 */
HG_EXPORT const char *HG_Get_last_error_text(void);
/** @} */

/**
 * @addtogroup hg_version
 * @{
 */
/**
 * Get the version of the library, which may be newer than the header.
 *
 * With HG_API_VERSION 2 this name is HG_Version_get2(), which gives the version
 * of Mercury's interface. A file with HG_API_VERSION 1 can be part of the same
 * program.
 *
 * @param[out] major_p  the first number.
 * @param[out] minor_p  the second number.
 * @param[out] patch_p  the third number.
 * @retval HG_SUCCESS      all three are set.
 * @retval HG_INVALID_ARG  an argument is NULL.
 */
HG_EXPORT hg_return_t HG_Version_get(
    unsigned int *major_p, unsigned int *minor_p, unsigned int *patch_p);
/** @} */
