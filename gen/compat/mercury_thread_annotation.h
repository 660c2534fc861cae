/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's annotations for clang's thread analysis: here they are empty. */
#ifndef HG_COMPAT_MERCURY_THREAD_ANNOTATION_H
#define HG_COMPAT_MERCURY_THREAD_ANNOTATION_H

#define HG_LOCK_CAPABILITY(x)
#define HG_LOCK_ACQUIRE(...)
#define HG_LOCK_ACQUIRE_SHARED(...)
#define HG_LOCK_RELEASE(...)
#define HG_LOCK_RELEASE_SHARED(...)
#define HG_LOCK_TRY_ACQUIRE(...)
#define HG_LOCK_TRY_ACQUIRE_SHARED(...)
#define HG_LOCK_NO_THREAD_SAFETY_ANALYSIS

#endif
