/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's name for hg.h: see mercury_config.h. Includes Boost's preprocessor,
 * which programs get from this header. */
#ifndef HG_COMPAT_MERCURY_MACROS_H
#define HG_COMPAT_MERCURY_MACROS_H

#include "mercury.h"
#include "mercury_proc_bulk.h"

#ifdef HG_HAS_BOOST
#include <boost/preprocessor.hpp>
#endif

#endif
