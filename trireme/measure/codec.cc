#include "trireme/measure/codec.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/rng.h"

namespace trireme::measure {

Result<CodecFigures> measure_on_core(runtime::Runtime& rt, const codec::CodecRow& row,
                                     const codec::Options& options, std::uint64_t bytes, int repeats) {
  TR_ASSIGN_OR_RETURN(const std::unique_ptr<codec::Codec> coder, row.make(options));
  const std::size_t count = bytes / sizeof(float);
  std::vector<float> values(count), residual(count), out(count);
  Philox rng(1);
  for (float& v : values) v = 0.01F * rng.next_normal();
  Bytes encoded(coder->max_bytes(static_cast<std::int64_t>(count)));
  CodecFigures f;
  f.codec = row.name;
  f.bytes = count * sizeof(float);
  const auto best = [&](double& seconds, const auto& work) {
    const TimeNs before = rt.now();
    work();
    seconds = std::min(seconds, to_seconds(rt.now() - before));
  };
  Status decoded;
  for (int i = 0; i < repeats && decoded.ok(); ++i) {
    best(f.memcpy_seconds, [&] { std::memcpy(out.data(), values.data(), f.bytes); });
    best(f.encode_seconds,
         [&] { f.encoded = coder->encode(values, {residual}, static_cast<std::uint64_t>(i), encoded); });
    best(f.decode_seconds, [&] { decoded = coder->add(ByteView(encoded).subspan(0, f.encoded), out); });
  }
  TR_RETURN_IF_ERROR(decoded);
  return f;
}

}  // namespace trireme::measure
