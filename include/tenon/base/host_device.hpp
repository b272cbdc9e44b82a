// SPDX-License-Identifier: Apache-2.0
#pragma once

// TENON_BOTH marks a function that the device may call as well as the host; without nvcc it is
// nothing. It is one of the library's two macros.
#if defined(__CUDACC__)
#define TENON_BOTH __host__ __device__
#else
#define TENON_BOTH
#endif
