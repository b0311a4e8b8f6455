#include "trireme/comm/sum/coded_work.h"
#include "trireme/tensor/host_zeros.h"

#include <algorithm>

namespace trireme::comm {

using runtime::Task;

Device& device_of(const runtime::Runtime& rt) { return rt.is_phantom() ? phantom_device() : cpu_device(); }

Result<Tensor> zeros(const runtime::Runtime& rt, std::int64_t rows, std::int64_t elems) {
  return allocate_zeros(device_of(rt), {DType::kF32, {rows, elems}});
}

Task<Result<Mail>> CodedWork::encode(std::vector<Encoding> all, Room& room) {
  Mail mail;
  std::vector<std::size_t> places;
  std::size_t most = 0, parts = 0;
  double work = 0;
  for (const Encoding& e : all) {
    places.push_back(most);
    most += e.packer->max_bytes();
    parts += e.packer->num_parts();
    work += e.packer->work_bytes();
    mail.sizes.push_back(size_unseen(*e.packer));
  }
  TR_CO_ASSIGN_OR_RETURN(mail.bytes, room.take(rt_, most));
  const TimeNs began = rt_.now();
  const auto fn = [&](runtime::ComputeContext& context) {
    const MutByteView out(mail.bytes.raw(), most);
    context.parallel_for(static_cast<std::int64_t>(parts), [&](std::int64_t begin, std::int64_t end, int) {
      std::int64_t at = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const Encoding& e = all[i];
        for (std::size_t p = 0; p < e.packer->num_parts(); ++p, ++at)
          if (at >= begin && at < end)
            e.packer->pack_part(p, e.values, e.carry, e.keys, out.subspan(places[i], e.packer->max_bytes()));
      }
    });
    std::size_t end = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      mail.sizes[i] = all[i].packer->finish(out.subspan(places[i], all[i].packer->max_bytes()));
      if (end != places[i]) std::memmove(out.data() + end, out.data() + places[i], mail.sizes[i]);
      end += mail.sizes[i];
    }
  };
  runtime::ComputeFn run = fn;
  co_await rt_.compute({.flops = work / 4, .bytes = work}, std::move(run), width_for(parts), "encode");
  stats_.encode_ns += rt_.now() - began;
  stats_.messages += static_cast<std::int64_t>(all.size());
  stats_.bytes += static_cast<double>(mail.total());
  co_return mail;
}

Task<void> CodedWork::watch(std::vector<Encoding> all) {
  std::size_t parts = 0;
  double work = 0;
  for (const Encoding& e : all) {
    parts += e.packer->num_parts();
    work += e.packer->work_bytes();
  }
  runtime::ComputeFn run = [&](runtime::ComputeContext& context) {
    context.parallel_for(static_cast<std::int64_t>(parts), [&](std::int64_t begin, std::int64_t end, int) {
      std::int64_t at = 0;
      for (const Encoding& e : all)
        for (std::size_t p = 0; p < e.packer->num_parts(); ++p, ++at)
          if (at >= begin && at < end) e.packer->watch_part(p, e.values, e.carry);
    });
  };
  co_await rt_.compute({.flops = work / 6, .bytes = work}, std::move(run), width_for(parts), "velocities");
}

int CodedWork::width_for(std::size_t parts) const {
  return static_cast<int>(std::clamp<std::size_t>(parts, 1, static_cast<std::size_t>(rt_.compute_threads())));
}

Task<Status> CodedWork::decode(std::vector<Decoding> all) {
  double work = 0;
  std::size_t parts = 0;
  for (const Decoding& d : all) {
    work += d.packer->work_bytes() * static_cast<double>(std::max<std::size_t>(1, d.messages.size()));
    parts += d.packer->num_parts();
  }
  Status failed;
  const TimeNs began = rt_.now();
  const auto fn = [&](runtime::ComputeContext& context) {
    std::vector<std::vector<std::vector<ByteView>>> split(all.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      for (const ByteView message : all[i].messages) {
        auto found = all[i].packer->parts_of(message);
        if (!found.ok()) {
          failed = found.status();
          return;
        }
        split[i].push_back(std::move(*found));
      }
    std::vector<Status> wrong(static_cast<std::size_t>(context.width()));
    context.parallel_for(static_cast<std::int64_t>(parts),
                         [&](std::int64_t begin, std::int64_t end, int slice) {
                           std::int64_t at = 0;
                           for (std::size_t i = 0; i < all.size(); ++i)
                             for (std::size_t p = 0; p < all[i].packer->num_parts(); ++p, ++at) {
                               if (at < begin || at >= end) continue;
                               Status s = all[i].packer->sum_part(p, split[i], all[i].into);
                               if (!s.ok()) wrong[static_cast<std::size_t>(slice)] = std::move(s);
                             }
                         });
    for (Status& s : wrong)
      if (!s.ok()) failed = std::move(s);
  };
  runtime::ComputeFn run = fn;
  co_await rt_.compute({.flops = work / 4, .bytes = work}, std::move(run), width_for(parts), "decode");
  stats_.decode_ns += rt_.now() - began;
  co_return failed;
}

Task<Status> CodedWork::add(const codec::Packer& packer, ByteView message, std::span<float> into) {
  const double work = packer.work_bytes();
  const std::size_t parts = packer.num_parts();
  Status failed;
  const TimeNs began = rt_.now();
  const auto fn = [&](runtime::ComputeContext& context) {
    const auto found = packer.parts_of(message);
    failed = found.status();
    if (!failed.ok()) return;
    std::vector<Status> wrong(static_cast<std::size_t>(context.width()));
    context.parallel_for(
        static_cast<std::int64_t>(parts), [&](std::int64_t begin, std::int64_t end, int slice) {
          for (auto p = static_cast<std::size_t>(begin); p < static_cast<std::size_t>(end); ++p) {
            Status s = packer.add_part(p, (*found)[p], into);
            if (!s.ok()) wrong[static_cast<std::size_t>(slice)] = std::move(s);
          }
        });
    for (Status& s : wrong)
      if (!s.ok()) failed = std::move(s);
  };
  runtime::ComputeFn run = fn;
  co_await rt_.compute({.flops = work / 4, .bytes = work}, std::move(run), width_for(parts), "decode");
  stats_.decode_ns += rt_.now() - began;
  co_return failed;
}

}  // namespace trireme::comm
