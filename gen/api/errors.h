/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Return codes ====================================================== */

/* NA and HG share the first 24 codes; they are equal in value. hg_return_t and
 * na_return_t are int in version 1 and these enum types in version 2. */
enum na_return {
#if HG_API_VERSION == 2
    /* Mercury's names for 3, 16 and 23. They come first so that a debugger
     * prints them. */
    NA_INTERRUPT = 3,
    NA_OPNOTSUPPORTED = 16,
    NA_HOSTFIREWALL = 23,
#endif
    NA_SUCCESS = 0,
    NA_PERMISSION = 1,      /* the other side does not allow it */
    NA_NOENTRY = 2,         /* no such object, name or operation */
    NA_INTR = 3,            /* a signal ended a wait of a thread that slept */
    NA_AGAIN = 4,           /* a limit was reached; try later */
    NA_NOMEM = 5,           /* out of memory */
    NA_ACCESS = 6,          /* refused by the operating system's rights */
    NA_FAULT = 7,           /* the object is unusable, as after a fork */
    NA_BUSY = 8,            /* in use, so it cannot be done now */
    NA_EXIST = 9,           /* there is one already */
    NA_NODEV = 10,          /* no such device or interface */
    NA_INVALID_ARG = 11,    /* an argument is wrong */
    NA_PROTOCOL_ERROR = 12, /* a peer spoke another or broken protocol */
    NA_OVERFLOW = 13,       /* out of the range of an object */
    NA_MSGSIZE = 14,        /* a buffer or message size does not fit */
    NA_PROTONOSUPPORT = 15, /* no transport speaks this protocol */
    NA_OPNOTSUPPORT = 16,   /* this transport or object cannot do that */
    NA_ADDRINUSE = 17,      /* somebody listens there already */
    NA_ADDRNOTAVAIL = 18,   /* not an address of this host */
    NA_HOSTUNREACH = 19,    /* the peer was never reached */
    NA_TIMEOUT = 20,        /* not (yet) in the given time */
    NA_CANCELED = 21,       /* canceled by either side */
    NA_IO_ERROR = 22,       /* the system or a library failed */
    NA_DISCONNECT = 23,     /* the peer was reached once and is gone; so is
                               its address: look it up again */
    NA_RETURN_MAX = 24,
    NA_CHECKSUM_ERROR = 24 /* a message or its arguments changed on the way,
                              or not all arguments were decoded */
};

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
    HG_NA_ERROR = 25,    /* the network layer failed without a cause */
    HG_OTHER_ERROR = 26, /* for applications: none of the above */
    HG_RETURN_MAX = 27
};

#if HG_API_VERSION == 1
typedef int na_return_t;
typedef int hg_return_t;
#else
typedef enum na_return na_return_t;
typedef enum hg_return hg_return_t;
#endif

/* A short text for a code, never NULL; "unknown error" for other numbers. */
NA_EXPORT const char *NA_Error_to_string(na_return_t ret);
HG_EXPORT const char *HG_Error_to_string(hg_return_t ret);

/* Why the last call of this thread failed. The text names the function (of the
 * call, or of the library) and the cause, once a call began the peer, and the
 * peer's own text if there was one.
 *
 * HG_Forward and HG_Forward_timed of the request model, HG_Wait, HG_Wait_all,
 * HG_Forward_wait, and NAME_call and NAME_start of MERCURY_GEN_RPC_STUB empty
 * it first. The functions that begin a call set it whenever they fail; the
 * waits when a call has failed or the request is unknown, but not with
 * HG_TIMEOUT or HG_INTR of a wait that may go on. Other functions do not empty
 * it; they set it where they refuse an argument or fail to decode.
 * NA_Addr_lookup_wait empties it, and sets it whenever it fails.
 *
 * Returns "" if there is no text, never NULL.
 * Lifetime: until this thread's next call of the library. Threads: each has its
 * own. */
HG_EXPORT const char *HG_Get_last_error_text(void);

/* The version of the library linked, which may be newer than the header. */
HG_EXPORT hg_return_t HG_Version_get(
    unsigned int *major_p, unsigned int *minor_p, unsigned int *patch_p);
