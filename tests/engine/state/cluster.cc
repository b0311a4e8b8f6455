#include "tests/engine/state/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/io/shards.h"
#include "trireme/net/factory.h"

namespace trireme::engine::testing {
namespace {

using parallel::Interval;
using parallel::Piece;
using runtime::Runtime;
using runtime::Task;

constexpr int kMachines = 4;

Task<Status> run_body(Runtime& rt, net::ConnectOptions connect, std::vector<net::SendRecord>* sends,
                      const Cluster::Body& body) {
  auto transport = co_await net::connect_transport(rt, "inproc", connect);
  if (!transport.ok()) co_return transport.status();
  auto recording = net::make_recording_transport(std::move(*transport), sends);
  auto made = comm::make_group(rt, std::move(recording), {});
  if (!made.ok()) co_return made.status();
  const std::unique_ptr<comm::Group> group = std::move(*made);
  Status status = co_await body(rt, *group);
  if (!status.ok() && group->verdict().ok()) group->fail("test", status.message());
  const Status left = co_await group->leave();
  co_return status.ok() ? left : status;
}

Task<void> run_rank(Runtime& rt, net::ConnectOptions connect, std::vector<net::SendRecord>* sends,
                    const Cluster::Body& body, Status& out) {
  out = co_await run_body(rt, std::move(connect), sends, body);
}

Tensor values(const Shape& shape, float first) {
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, shape});
  for (std::int64_t i = 0; i < shape.num_elems(); ++i) t.data<float>()[i] = first + static_cast<float>(i);
  return t;
}

// The rank's memory for pieces: where the tensor is cut in blocks, views of one tensor.
std::vector<Tensor> memory_for(const parallel::Holdings& all, std::size_t tensor, int rank) {
  const std::vector<Piece> pieces = pieces_held(all, tensor, rank);
  std::vector<Tensor> out;
  if (pieces.size() <= 1) {
    for (const Piece& p : pieces) out.push_back(*Tensor::allocate(cpu_device(), io::stored_type(p)));
    return out;
  }
  const parallel::StateTensor& t = all.tensors[tensor];
  int dim = 0;
  for (const parallel::AxisLayout& axis : t.layout.axes)
    if (axis.blocks > 1) dim = axis.dim;
  const Shape local = local_shape(t.layout, all.mesh, rank, t.whole.shape);
  const Tensor joined = *Tensor::allocate(cpu_device(), {t.whole.dtype, local});
  std::int64_t at = 0;
  for (const Piece& p : pieces) {
    const std::int64_t size = p.box[static_cast<std::size_t>(dim)].size();
    out.push_back(joined.slice(dim, at, at + size));
    at += size;
  }
  return out;
}

}  // namespace

Cluster::Cluster(std::vector<runtime::FaultSpec> faults) {
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(kMachines, {}, {});
  spec.faults = std::move(faults);
  world_ = runtime::make_virtual_world(spec);
}

std::vector<Status> Cluster::run(std::vector<int> machines, const Body& body) {
  std::vector<Status> out(machines.size(), Status(Code::kPeerLost, "[test] the rank was killed"));
  std::vector<std::vector<net::SendRecord>> sends(machines.size());
  const int base = num_runtimes_;
  Runtime* first = nullptr;
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    Runtime& rt = world_->add_runtime(machines[rank], fmt::format("process {}", num_runtimes_++));
    if (rank == 0) first = &rt;
    net::ConnectOptions connect;
    connect.rank = static_cast<int>(rank);
    connect.world = static_cast<int>(machines.size());
    connect.endpoint_base = base;
    world_->start(rt, run_rank(rt, std::move(connect), &sends[rank], body, out[rank]));
  }
  const auto report = world_->run(kForever);
  EXPECT_TRUE(report.finished) << report.stuck;
  log = world_->log_of(*first);
  sends_.clear();
  for (const auto& of_rank : sends) sends_.insert(sends_.end(), of_rank.begin(), of_rank.end());
  return out;
}

void Cluster::run_well(std::vector<int> machines, const Body& body) {
  for (const Status& status : run(std::move(machines), body)) EXPECT_TRUE(status.ok()) << status.to_string();
}

void Cluster::run_alone(const std::function<Task<void>(Runtime&)>& body) {
  Runtime& rt = world_->add_runtime(0, fmt::format("process {}", num_runtimes_++));
  world_->start(rt, body(rt));
  const auto report = world_->run(kForever);
  EXPECT_TRUE(report.finished) << report.stuck;
}

io::NamedTensors whole_model(float offset) {
  return {{"a", values({7, 5}, offset)},
          {"b", values({4, 12}, 100 + offset)},
          {"c", values({}, 1000 + offset)},
          {"d", values({0, 3}, 0)},
          {"e", values({11}, 2000 + offset)},
          {"f", values({2, 6, 3}, 3000 + offset)},
          {"shard/r", values({6, 5}, 4000 + offset)},
          {"z", values({3}, 5000 + offset)}};
}

std::vector<Cut> cuts() {
  const parallel::Mesh two_by_two{{{parallel::kDataAxis, 2}, {parallel::kModelAxis, 2}}};
  return {{"one rank", parallel::data_mesh(1), "replicate"},
          {"three replicas", parallel::data_mesh(3), "replicate"},
          {"three, rows", parallel::data_mesh(3), "shard(0)"},
          {"three, flat", parallel::data_mesh(3), "flat"},
          {"2 x 2, columns", two_by_two, "replicate shard(1)"},
          {"2 x 2, blocks", two_by_two, "replicate shard(1,3)"},
          {"2 x 2, flat in columns", two_by_two, "flat shard(1)"}};
}

parallel::Holdings holdings_of(const Cut& cut) {
  parallel::Holdings all;
  all.mesh = cut.mesh;
  for (const auto& [name, tensor] : whole_model()) {
    parallel::StateTensor t;
    t.name = name;
    t.whole = tensor.type();
    t.layout = *parallel::Layout::parse(cut.layout);
    if (!check_layout(t.layout, cut.mesh, t.whole).ok()) t.layout = parallel::Layout::replicate(cut.mesh);
    const int replicas = cut.mesh.size_of(parallel::kDataAxis);
    if (name == "shard/r") {
      t.layout = parallel::Layout::replicate(cut.mesh);
      // The last of them has none where there are three.
      if (replicas == 1) t.rows = {{0, 6}};
      if (replicas == 2) t.rows = {{0, 4}, {4, 2}};
      if (replicas == 3) t.rows = {{0, 1}, {1, 5}, {6, 0}};
    }
    if (name == "z") t.only_rank = cut.mesh.num_ranks() - 1;
    all.tensors.push_back(std::move(t));
  }
  return all;
}

Tensor tensor_named(const io::NamedTensors& model, const std::string& name) {
  const auto found = std::find_if(model.begin(), model.end(), [&](const auto& t) { return t.first == name; });
  TR_CHECK(found != model.end());
  return found->second;
}

HeldState hold(const Cut& cut, int rank, const io::NamedTensors* model) {
  HeldState out;
  out.all = holdings_of(cut);
  out.rank = rank;
  for (std::size_t i = 0; i < out.all.tensors.size(); ++i) {
    out.own.push_back({memory_for(out.all, i, rank)});
    const std::vector<Piece> pieces = out.pieces(i);
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const Tensor& memory = out.own[i].pieces[p];
      const std::vector<float> unset(static_cast<std::size_t>(pieces[p].elems()), -1.0F);
      copy_in(memory, {0, pieces[p].elems()}, reinterpret_cast<const std::byte*>(unset.data()));
      if (model == nullptr) continue;
      const Tensor whole = tensor_named(*model, pieces[p].name);
      for (const parallel::SharedRun& run : runs_in_whole(pieces[p]))
        copy_in(memory, {run.first, run.first + run.count},
                reinterpret_cast<const std::byte*>(whole.data<float>() + run.second));
    }
  }
  EXPECT_TRUE(check_held(out).ok()) << check_held(out).to_string();
  return out;
}

void expect_part(const HeldState& holding, const io::NamedTensors& model) {
  for (std::size_t i = 0; i < holding.size(); ++i) {
    const std::vector<Piece> pieces = holding.pieces(i);
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const Tensor whole = tensor_named(model, pieces[p].name);
      std::vector<float> own(static_cast<std::size_t>(pieces[p].elems()));
      copy_out(holding.own[i].pieces[p], {0, pieces[p].elems()}, reinterpret_cast<std::byte*>(own.data()));
      std::vector<float> expected(own.size());
      for (const parallel::SharedRun& run : runs_in_whole(pieces[p]))
        std::copy_n(whole.data<float>() + run.second, run.count, expected.data() + run.first);
      EXPECT_EQ(own, expected) << "rank " << holding.rank << ": " << pieces[p].to_text();
    }
  }
}

}  // namespace trireme::engine::testing
