#include "trireme/codec/packer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "trireme/base/rng.h"

namespace trireme::codec {
namespace {

using Length = std::uint32_t;

std::int64_t sum_of(const std::vector<ElementRange>& pieces) {
  std::int64_t sum = 0;
  for (const ElementRange& p : pieces) sum += p.count;
  return sum;
}

template <class T>
std::span<T> cut(std::span<T> vector, const ElementRange& p) {
  return vector.empty()
             ? vector
             : vector.subspan(static_cast<std::size_t>(p.offset), static_cast<std::size_t>(p.count));
}

}  // namespace

Packing packing_of(const std::vector<ElementRange>& tensors, const std::vector<ElementRange>& plain,
                   std::int64_t least_elems) {
  Packing packing;
  for (const ElementRange& t : tensors) {
    if (t.count < least_elems || t.count == 0) {
      packing.plain.push_back(t);
      continue;
    }
    const std::int64_t parts = (t.count + kMostElems - 1) / kMostElems;
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::int64_t begin = t.count * i / parts, end = t.count * (i + 1) / parts;
      packing.coded.push_back({t.offset + begin, end - begin, t.is_common});
    }
  }
  packing.plain.insert(packing.plain.end(), plain.begin(), plain.end());
  return packing;
}

Result<Packer> Packer::make(const CodecRow& row, const Options& options, double momentum, Packing packing) {
  Packer packer;
  packer.row_ = &row;
  packer.options_ = options;
  packer.momentum_ = static_cast<float>(momentum);
  packer.packing_ = std::move(packing);
  TR_ASSIGN_OR_RETURN(packer.codec_, row.make(options));
  packer.coded_elems_ = sum_of(packer.packing_.coded);
  packer.plain_elems_ = sum_of(packer.packing_.plain);
  std::size_t at = packer.packing_.coded.size() * sizeof(Length) +
                   static_cast<std::size_t>(packer.plain_elems_) * sizeof(float);
  for (const ElementRange& p : packer.packing_.coded) {
    packer.places_.push_back(at);
    at += packer.codec_->max_bytes(p.count);
  }
  packer.places_.push_back(at);
  return packer;
}

double Packer::usual_bytes() const {
  double bytes = sizeof(Length) * static_cast<double>(packing_.coded.size()) +
                 sizeof(float) * static_cast<double>(plain_elems_);
  for (const ElementRange& p : packing_.coded) bytes += row_->bytes(options_, static_cast<double>(p.count));
  return bytes;
}

std::int64_t Packer::elems_of(std::size_t part) const {
  return is_plain(part) ? plain_elems_ : packing_.coded[part].count;
}

void Packer::pack_part(std::size_t part, std::span<const float> values, const Carry& carry, DrawKeys keys,
                       MutByteView out) const {
  if (is_plain(part)) {
    std::byte* to = out.data() + packing_.coded.size() * sizeof(Length);
    for (const ElementRange& p : packing_.plain) {
      const auto bytes = static_cast<std::size_t>(p.count) * sizeof(float);
      std::memcpy(to, values.data() + p.offset, bytes);
      to += bytes;
    }
    return;
  }
  const ElementRange& p = packing_.coded[part];
  std::span<const float> from = cut(values, p);
  const std::span<float> velocity = cut(carry.velocity, p), residual = cut(carry.residual, p);
  if (!velocity.empty()) {
    for (std::size_t i = 0; i < from.size(); ++i) velocity[i] = momentum_ * velocity[i] + from[i];
    from = velocity;
  }
  // Common pieces are at the same place, but need not be the same part.
  const std::uint64_t key =
      p.is_common ? mix_key(keys.common, static_cast<std::uint64_t>(p.offset)) : mix_key(keys.own, part);
  const std::size_t bytes = codec_->encode(from, Memory{residual}, key,
                                           out.subspan(places_[part], places_[part + 1] - places_[part]));
  // What was sent whole starts with no momentum (factor masking).
  if (!velocity.empty() && !residual.empty())
    for (std::size_t i = 0; i < from.size(); ++i)
      if (residual[i] == 0) velocity[i] = 0;
  const auto length = static_cast<Length>(bytes);
  std::memcpy(out.data() + part * sizeof(Length), &length, sizeof(length));
}

void Packer::watch_part(std::size_t part, std::span<const float> values, const Carry& carry) const {
  if (is_plain(part) || carry.velocity.empty()) return;
  const std::span<const float> from = cut(values, packing_.coded[part]);
  const std::span<float> velocity = cut(carry.velocity, packing_.coded[part]);
  for (std::size_t i = 0; i < from.size(); ++i) velocity[i] = momentum_ * velocity[i] + from[i];
}

std::size_t Packer::finish(MutByteView out) const {
  std::size_t end = places_.front();
  for (std::size_t i = 0; i < packing_.coded.size(); ++i) {
    Length length = 0;
    std::memcpy(&length, out.data() + i * sizeof(Length), sizeof(length));
    if (end != places_[i]) std::memmove(out.data() + end, out.data() + places_[i], length);
    end += length;
  }
  return end;
}

std::size_t Packer::pack(std::span<const float> values, const Carry& carry, DrawKeys keys,
                         MutByteView out) const {
  for (std::size_t part = 0; part < num_parts(); ++part) pack_part(part, values, carry, keys, out);
  return finish(out);
}

Result<std::vector<ByteView>> Packer::parts_of(ByteView message) const {
  if (message.size() < places_.front())
    return error(Code::kCorrupt, "[codec] a packed message is cut off: got {} bytes, expected at least {}",
                 message.size(), places_.front());
  std::vector<ByteView> parts;
  std::size_t at = places_.front();
  for (std::size_t i = 0; i < packing_.coded.size(); ++i) {
    Length length = 0;
    std::memcpy(&length, message.data() + i * sizeof(Length), sizeof(length));
    if (length > message.size() - at)
      return error(Code::kCorrupt, "[codec] a packed message is cut off: got {} bytes, expected {} more",
                   message.size(), length - (message.size() - at));
    parts.push_back(message.subspan(at, length));
    at += length;
  }
  if (at != message.size())
    return error(Code::kCorrupt, "[codec] a packed message is too long: got {} bytes, expected {}",
                 message.size(), at);
  const std::size_t lengths = packing_.coded.size() * sizeof(Length);
  parts.push_back(message.subspan(lengths, places_.front() - lengths));
  return parts;
}

Status Packer::add_values(std::size_t part, ByteView encoded, std::span<float> values) const {
  if (!is_plain(part)) return codec_->add(encoded, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float v = 0;
    std::memcpy(&v, encoded.data() + i * sizeof(float), sizeof(v));
    values[i] += v;
  }
  return {};
}

Status Packer::add_part(std::size_t part, ByteView encoded, std::span<float> into) const {
  if (!is_plain(part)) return codec_->add(encoded, cut(into, packing_.coded[part]));
  const std::byte* from = encoded.data();
  for (const ElementRange& p : packing_.plain)
    for (float& x : cut(into, p)) {
      float v = 0;
      std::memcpy(&v, from, sizeof(v));
      from += sizeof(v);
      x += v;
    }
  return {};
}

Status Packer::add(ByteView message, std::span<float> into) const {
  TR_ASSIGN_OR_RETURN(const std::vector<ByteView> parts, parts_of(message));
  for (std::size_t part = 0; part < num_parts(); ++part)
    TR_RETURN_IF_ERROR(add_part(part, parts[part], into));
  return {};
}

Status Packer::sum_node(std::size_t part, std::span<const std::vector<ByteView>> messages,
                        std::span<float> values) const {
  if (messages.size() == 1) {
    std::fill(values.begin(), values.end(), 0.0F);
    return add_values(part, messages[0][part], values);
  }
  const std::size_t half = std::bit_ceil(messages.size()) / 2;
  TR_RETURN_IF_ERROR(sum_node(part, messages.subspan(0, half), values));
  const auto right = messages.subspan(half);
  if (right.size() == 1) return add_values(part, right[0][part], values);  // the same bits as by way of zeros
  std::vector<float> sum(values.size());
  TR_RETURN_IF_ERROR(sum_node(part, right, sum));
  for (std::size_t i = 0; i < sum.size(); ++i) values[i] += sum[i];
  return {};
}

Status Packer::sum_part(std::size_t part, std::span<const std::vector<ByteView>> messages,
                        std::span<float> into) const {
  if (!is_plain(part)) return sum_node(part, messages, cut(into, packing_.coded[part]));
  std::vector<float> sum(static_cast<std::size_t>(plain_elems_));
  TR_RETURN_IF_ERROR(sum_node(part, messages, sum));
  const float* from = sum.data();
  for (const ElementRange& p : packing_.plain) {
    std::copy_n(from, p.count, into.data() + p.offset);
    from += p.count;
  }
  return {};
}

}  // namespace trireme::codec
