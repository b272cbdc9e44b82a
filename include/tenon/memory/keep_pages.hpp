// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace tenon::inline v0 {

/// Asks the C library to keep freed memory in this process for the next allocation. By default
/// glibc gives every large block back to the system, and the system fills each page of the next one
/// with zeros when it is first touched: a training step, which makes and frees the same tensors
/// again and again, then spends much of its time there. What is resident stays at its peak.
/// For programs, once, before the large buffers are made; other C libraries go on as they are.
/// Thread-safety: call it while no other thread allocates.
inline void keep_pages() noexcept {
#if defined(__GLIBC__)
  mallopt(M_MMAP_MAX, 0);         // no blocks of their own: all from the heap
  mallopt(M_TRIM_THRESHOLD, -1);  // whose end is never given back
  mallopt(M_TOP_PAD, 64 << 20);   // and that grows in large pieces
#endif
}

}  // namespace tenon::inline v0
