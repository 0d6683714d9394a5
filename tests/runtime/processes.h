#pragma once

#include <gtest/gtest.h>

#include "tests/support/roles.h"

// Gloo has threads of its own, which ThreadSanitizer cannot see into.
#if defined(__SANITIZE_THREAD__)
#define BIGMAC_NEEDS_PROCESSES() \
  GTEST_SKIP() << "ThreadSanitizer does not see into Gloo, which is not instrumented"
#else
#define BIGMAC_NEEDS_PROCESSES() static_cast<void>(0)
#endif
