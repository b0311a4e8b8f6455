// An image that four ranks hold in boxes, blurred three times: a rank reads its box with the pixels around
// it, whoever holds them, computes its own pixels and writes them. Then the same image in rows. Ranks are
// threads here; over shared memory or TCP the same code runs in processes. It prints:
//   ~ rank 0 holds image\[0:15, 0:11\] of f32\[30, 21\] and reads image\[0:16, 0:12\]
//   ~ blurred 3 times as in one piece: largest difference 0
//   ~ as 'shard\(0\) shard\(0\)' rank 0 holds image\[0:8, 0:21\]
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "trireme/engine/state/dist_array.h"
#include "trireme/net/factory.h"
#include "trireme/runtime/real/real_runtime.h"
using namespace trireme;
using parallel::Box;
using runtime::Task;

constexpr std::int64_t kRows = 30, kColumns = 21;
constexpr int kTimes = 3;
const TensorType kImage{DType::kF32, {kRows, kColumns}};

float first_pixel(std::int64_t row, std::int64_t column) {
  return static_cast<float>((7 * row + 3 * column) % 11);
}

// The box and the pixels around it.
Box around(const Box& box) {
  const auto wider = [](parallel::Interval i, std::int64_t size) {
    return parallel::Interval{std::max<std::int64_t>(0, i.begin - 1), std::min(size, i.end + 1)};
  };
  return {wider(box[0], kRows), wider(box[1], kColumns)};
}

// Every pixel of `box` is the mean of itself and its neighbors, which are in `seen`.
Tensor blurred(const Box& box, const Tensor& pixels, const Box& seen) {
  Tensor out = *Tensor::allocate(cpu_device(), {DType::kF32, {box[0].size(), box[1].size()}});
  const auto at = [&](std::int64_t r, std::int64_t c) {
    return pixels.data<float>()[(r - seen[0].begin) * seen[1].size() + c - seen[1].begin];
  };
  float* next = out.data<float>();
  for (std::int64_t r = box[0].begin; r < box[0].end; ++r)
    for (std::int64_t c = box[1].begin; c < box[1].end; ++c) {
      float sum = 0, count = 0;
      for (std::int64_t i = std::max<std::int64_t>(0, r - 1); i <= std::min(kRows - 1, r + 1); ++i)
        for (std::int64_t j = std::max<std::int64_t>(0, c - 1); j <= std::min(kColumns - 1, c + 1); ++j)
          sum += at(i, j), count += 1;
      *next++ = sum / count;
    }
  return out;
}

Tensor first_image(const Box& box) {
  Tensor out = *Tensor::allocate(cpu_device(), {DType::kF32, {box[0].size(), box[1].size()}});
  float* next = out.data<float>();
  for (std::int64_t r = box[0].begin; r < box[0].end; ++r)
    for (std::int64_t c = box[1].begin; c < box[1].end; ++c) *next++ = first_pixel(r, c);
  return out;
}

double largest_difference(const Tensor& image) {
  const Box all = parallel::whole_box(kImage.shape);
  Tensor alone = first_image(all);
  for (int i = 0; i < kTimes; ++i) alone = blurred(all, alone, all);
  double largest = 0;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i)
    largest = std::max<double>(largest, std::abs(alone.data<float>()[i] - image.data<float>()[i]));
  return largest;
}

Task<Status> work(runtime::Runtime& rt, comm::Group& group, parallel::Mesh mesh) {
  const bool speaks = group.rank() == 0;
  engine::DistArraySpec spec;
  spec.name = "image";
  spec.whole = kImage;
  spec.mesh = mesh;
  spec.layout = *parallel::Layout::parse("shard(0) shard(1)");
  auto image = engine::DistArray::make(rt, group, spec);
  if (!image.ok()) co_return image.status();

  const parallel::Piece own = image->pieces().at(0);
  const Box seen = around(own.box);
  if (speaks)
    fmt::print("rank 0 holds {} of {} and reads {}\n", own.to_text(), kImage.to_string(),
               parallel::Piece::of_box("image", kImage, seen).to_text());
  Tensor pixels = first_image(own.box);
  TR_CO_RETURN_IF_ERROR(co_await image->write(own.box, pixels));
  for (int i = 0; i < kTimes; ++i) {
    TR_CO_ASSIGN_OR_RETURN(const Tensor with_neighbors, co_await image->read(seen));
    pixels = blurred(own.box, with_neighbors, seen);
    TR_CO_RETURN_IF_ERROR(co_await image->write(own.box, pixels));
  }

  std::optional<Box> wanted;  // the others read nothing
  if (speaks) wanted = parallel::whole_box(kImage.shape);
  TR_CO_ASSIGN_OR_RETURN(const Tensor whole, co_await image->read(wanted));
  if (speaks)
    fmt::print("blurred {} times as in one piece: largest difference {}\n", kTimes,
               largest_difference(whole));

  const parallel::Layout rows = *parallel::Layout::parse("shard(0) shard(0)");
  TR_CO_RETURN_IF_ERROR(co_await image->to_layout(rows));
  if (speaks) fmt::print("as '{}' rank 0 holds {}\n", rows.to_text(), image->pieces().at(0).to_text());
  co_return Status();
}

Task<void> rank_main(runtime::Runtime& rt, int rank, parallel::Mesh mesh, Status& status) {
  net::ConnectOptions connect;
  connect.rank = rank;
  connect.world = mesh.num_ranks();
  auto transport = co_await net::connect_transport(rt, "inproc", connect);
  comm::GroupOptions options;
  auto group = comm::make_group(rt, std::move(*transport), options);
  status = co_await work(rt, **group, mesh);
  if (!status.ok()) (*group)->fail("dist_array", status.message());
  const Status left = co_await (*group)->leave();
  if (status.ok()) status = left;
}

int main() {
  const parallel::Mesh mesh = *parallel::parse_mesh("rows=2,columns=2");
  const auto fabric = runtime::make_fabric();
  std::vector<Status> statuses(static_cast<std::size_t>(mesh.num_ranks()));
  std::vector<std::function<void()>> bodies;
  for (int r = 0; r < mesh.num_ranks(); ++r)
    bodies.emplace_back([&, r] {
      runtime::RealOptions real;
      real.name = fmt::format("rank {}", r);
      real.compute_threads = 1;
      real.fabric = fabric;
      const auto rt = runtime::make_real_runtime(real);
      rt->run(rank_main(*rt, r, mesh, statuses[static_cast<std::size_t>(r)]));
    });
  runtime::run_in_threads(std::move(bodies));
  for (const Status& s : statuses)
    if (!s.ok()) return fmt::print("{}\n", s.to_string()), 1;
}
