// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/base/element.hpp"
#include "tenon/model/shape.hpp"
#include "tenon/parallel/strategy.hpp"

namespace pretrain_decoder {

/// Whether gradients and weights are exchanged while layers run.
enum class overlap_choice : std::uint8_t { measured, on, off };

/// What ranks compute on, and how device memory crosses between them.
enum class device_choice : std::uint8_t { automatic, host, cuda };
enum class transport_choice : std::uint8_t { automatic, mpi, staged };

/// What the flags of the program say, checked and with all defaults filled in.
struct settings {
  std::vector<std::string> text;  ///< files and folders
  tenon::decoder_shape shape;     ///< completed; the vocabulary is the 256 bytes
  tenon::run_strategy strategy;   ///< laid out over the ranks of this run

  std::int64_t batch = 16;      ///< sequences in a global step
  std::int64_t microbatch = 0;  ///< sequences in one forward of one rank
  std::int64_t steps = 200;
  std::int64_t warmup = 20;
  double learning_rate = 1e-3;
  double weight_decay = 0.1;
  double balance = 0.01;  ///< weight of the experts' balancing loss
  double clip = 1;        ///< largest gradient norm; infinity: none
  std::uint64_t seed = 1;
  std::int32_t document_separator = -1;  ///< the byte that ends a document; -1: nothing is packed

  tenon::element_kind precision = tenon::element_kind::fp32;  ///< fp64, fp32 or bf16
  overlap_choice overlap = overlap_choice::measured;
  device_choice device = device_choice::automatic;
  transport_choice transport = transport_choice::automatic;
  int threads = 0;       ///< 0: the cores that this rank has
  double timeout = 600;  ///< seconds until the watchdog acts

  std::string log;            ///< empty: none
  std::int64_t sample = 200;  ///< bytes to generate at the end
  bool profile = false;
  bool quiet = false;
};

/// Either the settings of a run, or a text that was asked for instead of one.
struct request {
  settings run;
  std::string answer;  ///< of --help and --version: print it and end with status 0
};

/// Reads the flags (arguments[0] is the program) of a run of `ranks` ranks. Throws tenon::error of
/// the kind bad_request with one sentence: the flag, what was asked, what is allowed, what to type.
/// It looks at the arguments alone, so all ranks come to the same result.
request read_flags(int count, const char* const* arguments, int ranks);

}  // namespace pretrain_decoder
