/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes under Mercury's names, for gcc and clang. */
#ifndef HG_COMPAT_MERCURY_COMPILER_ATTRIBUTES_H
#define HG_COMPAT_MERCURY_COMPILER_ATTRIBUTES_H

#define HG_ATTR_ABI_IMPORT __attribute__((visibility("default")))
#define HG_ATTR_ABI_EXPORT __attribute__((visibility("default")))
#define HG_ATTR_ABI_HIDDEN __attribute__((visibility("hidden")))
#define HG_ATTR_WARN_UNUSED_RESULT __attribute__((warn_unused_result))
#define HG_ATTR_UNUSED __attribute__((unused))
#define HG_ATTR_ALIGNED(declaration, bytes) \
    declaration __attribute__((aligned(bytes)))
#define HG_ATTR_PACKED_PUSH
#define HG_ATTR_PACKED_POP __attribute__((packed))
#define HG_ATTR_PACKED(declaration) \
    HG_ATTR_PACKED_PUSH declaration HG_ATTR_PACKED_POP
#define HG_ATTR_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define HG_ATTR_CONSTRUCTOR __attribute__((constructor))
#define HG_ATTR_CONSTRUCTOR_PRIORITY(n) __attribute__((constructor(n)))
#define HG_ATTR_DESTRUCTOR __attribute__((destructor))
#if __GNUC__ >= 7 || defined(__clang__)
#define HG_ATTR_FALLTHROUGH __attribute__((fallthrough))
#else
#define HG_ATTR_FALLTHROUGH \
    do { \
    } while (0)
#endif

/* A Mercury function that hg does not have: calling it is a compile error with
 * this text. */
#if defined(__has_attribute)
#if __has_attribute(error)
#define HG_ATTR_MISSING(text) __attribute__((error(text)))
#endif
#endif
#ifndef HG_ATTR_MISSING
#define HG_ATTR_MISSING(text)
#endif

/* Declares such a function whose arguments begin with a pointer. */
#define HG_MISSING(name, text) \
    int name(const void *first, ...) HG_ATTR_MISSING(text)

#endif
