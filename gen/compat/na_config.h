/* SPDX-License-Identifier: BSD-3-Clause */
/* Versions and attributes of Mercury's network layer, and which transports are
 * in the library: install-mercury-compat completes the list. */
#ifndef HG_COMPAT_NA_CONFIG_H
#define HG_COMPAT_NA_CONFIG_H

#include "mercury_compiler_attributes.h"
#include "mercury_config.h"

#define NA_VERSION_MAJOR 6
#define NA_VERSION_MINOR 0
#define NA_VERSION_PATCH 0

#define NA_UNUSED HG_ATTR_UNUSED
#define NA_ALIGNED(declaration, bytes) HG_ATTR_ALIGNED(declaration, bytes)
#define NA_PRINTF(text, first) HG_ATTR_PRINTF(text, first)
#define NA_PACKED(declaration) HG_ATTR_PACKED(declaration)
#define NA_FALLTHROUGH HG_ATTR_FALLTHROUGH
#define NA_INLINE __inline__
#define NA_PUBLIC HG_ATTR_ABI_EXPORT
#define NA_PRIVATE HG_ATTR_ABI_HIDDEN
#define NA_PLUGIN HG_ATTR_ABI_EXPORT
#define NA_PLUGIN_VISIBILITY NA_PUBLIC

#define NA_HAS_DIAG
#ifdef __linux__
#define NA_HAS_SM
#define NA_SM_HAS_CMA
#endif
/* ofi: NA_HAS_OFI */
/* mpi: NA_HAS_MPI */

#endif
