#include "trireme/comm/device/message_coder.h"

#include <algorithm>
#include <cstring>

#include "trireme/comm/device/device_parts.h"

namespace trireme::comm {

namespace gpu = kernel::cuda;

namespace {

constexpr std::size_t kAlign = 512;

Result<gpu::MessageFormat> format_at(const DeviceSumOptions& o, std::size_t vector, std::int64_t step) {
  if (!o.coding.encodes_at(step)) return dense_format(o.vector_elems[vector]);
  return device_format(*o.coding.row, o.coding.options_at(step), o.coding.momentum, o.packings[vector],
                       o.vector_elems[vector]);
}

}  // namespace

// Messages are longest when most values are sent, and their length does not quite grow with the fraction: all
// steps of the warm-up are looked at.
Result<std::size_t> message_room(const DeviceSumOptions& options, std::size_t vector) {
  std::int64_t most = options.coding.dense_steps > 0 ? 4 * options.vector_elems[vector] : 0;
  const std::int64_t first = options.coding.dense_steps;
  for (std::int64_t step = first; step <= first + options.coding.warmup_steps; ++step) {
    TR_ASSIGN_OR_RETURN(const gpu::MessageFormat format, format_at(options, vector, step));
    most = std::max(most, format.most_bytes);
  }
  const std::size_t bytes = static_cast<std::size_t>(most) + gpu::kMessageSlack;
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

DeviceCoder::DeviceCoder(const DeviceSumOptions& options, int rank)
    : options_(options),
      run_(options.leaf_runs[static_cast<std::size_t>(rank)]),
      ways_(options.vector_elems.size()),
      watchers_(options.vector_elems.size()),
      halves_(options.vector_elems.size()) {}

Result<std::unique_ptr<DeviceCoder>> DeviceCoder::make(const DeviceSumOptions& options, int rank) {
  if (options.coding.row == nullptr) return std::unique_ptr<DeviceCoder>();
  std::unique_ptr<DeviceCoder> out(new DeviceCoder(options, rank));
  TR_ASSIGN_OR_RETURN(const auto codec, options.coding.row->make(options.coding.options));
  out->is_fixed_ = codec->has_fixed_size();
  for (std::size_t v = 0; v < options.vector_elems.size(); ++v) {
    TR_ASSIGN_OR_RETURN(const std::size_t room, message_room(options, v));
    out->rooms_.push_back(room);
    out->residuals_.emplace_back();
    out->velocities_.emplace_back();
    if (options.coding.feedback) {
      TR_ASSIGN_OR_RETURN(out->residuals_.back(), out->zeros(options.vector_elems[v]));
    }
    if (options.coding.momentum > 0) {
      TR_ASSIGN_OR_RETURN(out->velocities_.back(), out->zeros(options.vector_elems[v]));
    }
    TR_RETURN_IF_ERROR(out->prepare(options.coding.dense_steps, v));
  }
  return out;
}

gpu::CudaDevice& DeviceCoder::gpu() const { return *gpu::as_cuda(options_.device.get()); }

std::size_t DeviceCoder::largest_room() const {
  return rooms_.empty() ? 0 : *std::max_element(rooms_.begin(), rooms_.end());
}

Result<Tensor> DeviceCoder::zeros(std::int64_t elems) const {
  const TensorType type{DType::kF32, {run_.count, elems}};
  TR_ASSIGN_OR_RETURN(const Tensor here, Tensor::allocate(cpu_device(), type));
  TR_ASSIGN_OR_RETURN(Tensor there, Tensor::allocate(*options_.device, type));
  if (type.num_bytes() == 0) return there;
  std::memset(here.raw(), 0, type.num_bytes());
  TR_RETURN_IF_ERROR(options_.device->copy(here.buffer(), there.buffer(), nullptr));
  return there;
}

float* DeviceCoder::row(const Tensor& of, std::size_t shard) {
  if (of.is_null()) return nullptr;
  return reinterpret_cast<float*>(of.raw()) + shard * static_cast<std::size_t>(of.shape()[1]);
}

Status DeviceCoder::prepare(std::int64_t step, std::size_t vector) {
  Way& way = ways_[vector];
  const bool encodes = encodes_at(step);
  const double fraction = options_.coding.fraction_at(step);
  if (way.coder != nullptr && way.encodes == encodes && (!encodes || way.fraction == fraction)) return {};
  TR_ASSIGN_OR_RETURN(way.format, format_at(options_, vector, step));
  const std::int32_t leaves = options_.num_leaves;
  TR_ASSIGN_OR_RETURN(
      way.coder, gpu::make_message_coder(gpu(), way.format, leaves, tree_additions({0, leaves}, leaves)));
  way.fraction = fraction;
  way.encodes = encodes;
  return {};
}

Status DeviceCoder::encode(gpu::KernelStream& stream, std::size_t vector, std::size_t shard,
                           const float* values, std::byte* message) {
  Way& way = ways_[vector];
  const bool keeps = way.encodes;
  return way.coder->encode(stream, values, keeps ? row(residuals_[vector], shard) : nullptr,
                           keeps ? row(velocities_[vector], shard) : nullptr, message);
}

Status DeviceCoder::watch(gpu::KernelStream& stream, std::size_t vector, std::size_t shard,
                          const float* values) {
  std::unique_ptr<gpu::MessageCoder>& watcher = watchers_[vector];
  if (watcher == nullptr) {
    TR_ASSIGN_OR_RETURN(const gpu::MessageFormat format,
                        format_at(options_, vector, options_.coding.dense_steps));
    TR_ASSIGN_OR_RETURN(watcher, gpu::make_message_coder(gpu(), format, 1, {}));
  }
  return watcher->watch(stream, values, row(velocities_[vector], shard));
}

Status DeviceCoder::sum(gpu::KernelStream& stream, std::size_t vector,
                        std::span<const std::byte* const> messages, float* out) {
  TR_RETURN_IF_ERROR(ways_[vector].coder->sum(stream, messages, out));
  return ways_[vector].coder->finish(stream);
}

std::size_t DeviceCoder::least_length(std::size_t vector) const {
  const gpu::MessageFormat& format = ways_[vector].format;
  return static_cast<std::size_t>(ways_[vector].encodes && !format.coded.empty() ? format.coded.front().place
                                                                                 : format.most_bytes);
}

Result<std::size_t> DeviceCoder::length(gpu::KernelStream& stream, std::size_t vector,
                                        const std::byte* message) {
  const Way& way = ways_[vector];
  if (is_fixed_ || !way.encodes) return static_cast<std::size_t>(way.format.most_bytes);
  std::vector<std::uint32_t> lengths(way.format.coded.size());
  const std::size_t bytes = lengths.size() * sizeof(std::uint32_t);
  if (bytes > 0) {
    const Buffer from = Buffer::wrap(*options_.device, const_cast<std::byte*>(message), bytes);
    const Buffer to = Buffer::wrap(cpu_device(), reinterpret_cast<std::byte*>(lengths.data()), bytes);
    TR_RETURN_IF_ERROR(stream.copy(from, to));
    TR_RETURN_IF_ERROR(stream.synchronize());
  }
  std::size_t sum = least_length(vector);
  for (const std::uint32_t length : lengths) sum += length;
  return sum;
}

Result<const HalvesFormat*> DeviceCoder::halves(std::size_t vector) {
  Halves& own = halves_[vector];
  if (own.coder == nullptr) {
    own.format = halves_format(*options_.coding.row, options_.coding.momentum, options_.packings[vector],
                               options_.vector_elems[vector]);
    TR_ASSIGN_OR_RETURN(own.coder, gpu::make_message_coder(gpu(), own.format.format, 1, {}));
  }
  return &own.format;
}

Status DeviceCoder::encode_halves(gpu::KernelStream& stream, std::size_t vector, const float* values,
                                  std::byte* halves) {
  return halves_[vector].coder->encode(stream, values, row(residuals_[vector], 0),
                                       row(velocities_[vector], 0), halves);
}

Status DeviceCoder::widen(gpu::KernelStream& stream, std::size_t vector, const std::byte* halves,
                          float* out) {
  const std::byte* const one[] = {halves};
  TR_RETURN_IF_ERROR(halves_[vector].coder->sum(stream, one, out));
  return halves_[vector].coder->finish(stream);
}

std::vector<std::pair<std::string, Tensor>> DeviceCoder::state() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (std::size_t v = 0; v < residuals_.size(); ++v) {
    if (!residuals_[v].is_null()) all.emplace_back(fmt::format("residual/{}", v), residuals_[v]);
    if (!velocities_[v].is_null()) all.emplace_back(fmt::format("velocity/{}", v), velocities_[v]);
  }
  return all;
}

}  // namespace trireme::comm
