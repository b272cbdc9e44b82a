// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/communicate/mpi/session.hpp"
#include "tenon/communicate/mpi/transport.hpp"
