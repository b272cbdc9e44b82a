// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"

template void tenon::kernel::enter_emulated_kernels<tenon::fp64>();
