// Codec: f32 values of a tensor in fewer bytes, and back. One codec, one file, one row of table.cc.
//
// An encoding begins with a header (wire.h) that names the codec by an id that never changes its meaning.
// Encoders have no state of their own: what one step leaves to the next (what was not sent) lies in
// the caller's Memory, so that it can be moved, saved and restored. What an encoder does
// depends on its arguments alone, to the bit, on every processor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "trireme/base/bytes.h"
#include "trireme/base/option_spec.h"
#include "trireme/base/status.h"

namespace trireme::codec {

// What an encoder may do to the values.
enum class Bound : std::uint8_t {
  kExact,        // nothing
  kRounding,     // each value within half a unit of a shorter float, if it is in range
  kUnbiased,     // each value is right on average over the random draws
  kContraction,  // what is lost is shorter than the values: |x - decode(encode(x))| < |x|
  kFeedback,     // right only with error feedback: what is lost may be as long as the values
};
std::string_view bound_name(Bound bound);

using Options = OptionValues;  // of a codec, as its row lists them

// What one tensor needs from step to step.
struct Memory {
  std::span<float> residual;  // what was not sent yet; empty: nothing is kept
};

class Codec {
 public:
  virtual ~Codec() = default;
  // No encoding of so many values is longer.
  virtual std::size_t max_bytes(std::int64_t count) const = 0;
  // All encodings of so many values are max_bytes() long.
  virtual bool has_fixed_size() const { return true; }
  // Encodes values, or values + residual where there is one, which then holds what the decoder will not see:
  // decoded + new residual = values + old residual. `key` decides the random draws. Gives the bytes written;
  // `out` has room for max_bytes().
  virtual std::size_t encode(std::span<const float> values, const Memory& memory, std::uint64_t key,
                             MutByteView out) const = 0;
  // out += decoded, which has out.size() values. kCorrupt for what no encoder wrote; out is undefined then.
  virtual Status add(ByteView encoded, std::span<float> out) const = 0;

  // out = decoded.
  Status decode(ByteView encoded, std::span<float> out) const;
};

// How a codec with error feedback begins in synchronous training where the job does not say: what it keeps
// back is long while the weights still change fast.
struct SafeStart {
  std::int64_t dense_steps = 0;   // not encoded, under any optimizer
  std::int64_t warmup_steps = 0;  // over which the fraction falls to its value
  // Under the optimizer `momentum`: after so many steps that are not encoded, encoders make its momentum. 0:
  // the optimizer keeps it.
  std::int64_t steps_before_momentum = 0;
};

struct CodecRow {
  const char* name;
  const char* doc;
  const char* paper;
  std::uint8_t wire_id;  // never another codec's, never reused
  Bound bound;
  bool needs_feedback;
  // Its own before those that it shares with others.
  std::span<const OptionSpec> options = {};
  // About how many bytes `count` values take; for prices.
  double (*bytes)(const Options& options, double count) = nullptr;
  Result<std::unique_ptr<Codec>> (*make)(const Options& options) = nullptr;
  bool sends_few = false;  // most values of a message are zeros, which are not in it
  SafeStart safe_start = {};
};
std::span<const CodecRow> codec_table();
// kNotFound lists the names that exist.
Result<const CodecRow*> find_codec(std::string_view name);

}  // namespace trireme::codec
