/* SPDX-License-Identifier: BSD-3-Clause */
/* gasnet_config: where programs look for the release that gasnet.h follows. */
#ifndef GASNET_CONFIG_H
#define GASNET_CONFIG_H

#define GASNET_RELEASE_VERSION_MAJOR 1
#define GASNET_RELEASE_VERSION_MINOR 28
#define GASNET_RELEASE_VERSION_PATCH 2

#endif
