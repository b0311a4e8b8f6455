// Coding: which codec values travel in, and how: what a job says about it.
#pragma once

#include "trireme/codec/codec.h"
#include "trireme/codec/options.h"

namespace trireme::codec {

struct Coding {
  const CodecRow* row = nullptr;  // null: values travel as they are
  Options options;
  bool feedback = true;             // what was not sent is added to the next values
  std::int64_t least_elems = 1024;  // shorter tensors travel as they are
  std::int64_t dense_steps = 0;     // first exchanges that are not encoded
  // Over so many exchanges after them the fraction falls to its value, in equal factors from a quarter (Lin
  // et al., "Deep gradient compression", ICLR 2018).
  std::int64_t warmup_steps = 0;
  // Momentum correction (Lin et al. 2018): above 0 what is encoded is the shard's own velocity u = momentum u
  // + g, so that what waits in the residual has its momentum too; the optimiser then has none.
  double momentum = 0;

  bool encodes_at(std::int64_t exchange) const { return row != nullptr && exchange >= dense_steps; }
  Options options_at(std::int64_t exchange) const;
  // The fraction of the values that is sent then; 1 with codecs that send all.
  double fraction_at(std::int64_t exchange) const;
};

}  // namespace trireme::codec
