// Parameter servers alone, as a key-value store: three workers count letters in their share of a text and
// look for the longest word by first letter; two servers keep both vectors. The second is updated by a rule
// of our own. Ranks are threads here; over shared memory or TCP the same code runs in processes. Prints:
//   ~ e 10 times, longest word with t: 6 letters
//   ~ 12 updates from 12 pushes
#include <fmt/core.h>

#include <algorithm>
#include <mutex>

#include "trireme/comm/group.h"
#include "trireme/comm/letter_kinds.h"
#include "trireme/graph/builder.h"
#include "trireme/net/factory.h"
#include "trireme/op/ops.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"
#include "trireme/server/client.h"
#include "trireme/server/server.h"
using namespace trireme;
using runtime::Task;

constexpr int kWorkers = 3, kServers = 2;
constexpr std::uint32_t kCounts = 0, kLongest = 1;  // keys
// A worker's last letter: a head without fields.
struct DoneHead {
  static constexpr std::uint16_t kKind = comm::kLetterUserFirst;
  static constexpr auto kFields = comm::head_fields();
};
const char* const kText[kWorkers] = {"three banks of oars", "the helmsman steers", "timber tames the sea"};

const std::vector<server::Key> kKeys = {{"counts", 26, {}}, {"longest", 26, {}}};

// Counts are added; of lengths the largest stays.
Result<server::UpdateSpec> my_update(std::span<const server::StoredPart> parts) {
  server::UpdateSpec spec;
  graph::Builder b(spec.graph);
  for (const server::StoredPart& p : parts) {
    const auto kept = b.variable(p.name, DType::kF32, {p.count});
    const auto pushed = b.input("grad:" + p.name, DType::kF32, {p.count});
    b.output("updated:" + p.name,
             p.name.ends_with("counts")
                 ? b.add_node(op::kAssignAdd, {kept, pushed})
                 : b.add_node(op::kAssign, {kept, b.add_node(op::kMaximum, {kept, pushed})}));
  }
  TR_RETURN_IF_ERROR(b.status());
  return spec;
}

void read_text(std::string_view text, std::span<float> counts, std::span<float> longest) {
  std::fill(counts.begin(), counts.end(), 0.0F);
  std::fill(longest.begin(), longest.end(), 0.0F);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    for (const char c : text.substr(begin, end - begin)) counts[static_cast<std::size_t>(c - 'a')] += 1;
    float& length = longest[static_cast<std::size_t>(text[begin] - 'a')];
    length = std::max(length, static_cast<float>(end - begin));
    begin = end + 1;
  }
}

Task<Status> work(runtime::Runtime& rt, comm::Group& group) {
  const std::vector<int> servers{kWorkers, kWorkers + 1};
  const auto layout = server::make_layout(kKeys, kServers);
  const auto client = server::make_client(rt, group.mailbox(), servers, *layout, kKeys);
  const Tensor counts = Tensor::from<float>(std::vector<float>(26), {26});
  const Tensor longest = Tensor::from<float>(std::vector<float>(26), {26});
  if (group.rank() == 0) {
    TR_CO_RETURN_IF_ERROR(co_await client->init(kCounts, counts));
    TR_CO_RETURN_IF_ERROR(co_await client->init(kLongest, longest));
  }
  // One clock per half of the line; words do not cross it.
  const std::string_view line = kText[group.rank()];
  const std::size_t half = line.find(' ', line.size() / 2);
  const std::string_view halves[] = {line.substr(0, half), line.substr(half + 1)};
  server::PushNote note;
  for (const std::string_view text : halves) {
    read_text(text, counts.values<float>(), longest.values<float>());
    TR_CO_RETURN_IF_ERROR(co_await client->push(kCounts, counts, note));
    TR_CO_RETURN_IF_ERROR(co_await client->push(kLongest, longest, note));
    TR_CO_RETURN_IF_ERROR(co_await client->tick(note.clock++));
  }
  if (group.rank() == 0) {
    // Read as if for clock 3: with a staleness of 1, everybody's clocks below 2 are in.
    TR_CO_RETURN_IF_ERROR((co_await client->pull(kCounts, counts, 3)).status());
    TR_CO_RETURN_IF_ERROR((co_await client->pull(kLongest, longest, 3)).status());
    fmt::print("e {} times, longest word with t: {} letters\n", counts.data<float>()[4],
               longest.data<float>()['t' - 'a']);
  }
  TR_CO_RETURN_IF_ERROR(co_await client->finish());
  const DoneHead done;
  for (const int rank : servers) TR_CO_RETURN_IF_ERROR(co_await group.mailbox().send(rank, done, {}));
  co_return Status();
}

struct Totals {
  std::mutex mutex;  // ranks are threads
  std::int64_t updates = 0, pushes = 0;
};

Task<Status> serve(runtime::Runtime& rt, comm::Group& group, Totals& totals) {
  int workers_left = kWorkers;
  runtime::OneShot<bool> over(rt);
  group.mailbox().handle<DoneHead>({{}, [&](int, const comm::Letter<DoneHead>&) {
                                      if (--workers_left == 0) over.set(true);
                                    }});
  server::ServerOptions options;
  options.server = group.rank() - kWorkers;
  options.layout = *server::make_layout(kKeys, kServers);
  options.keys = kKeys;
  options.consistency = "ssp";
  options.clocks.num_workers = kWorkers;
  options.clocks.staleness = 1;
  options.make_update = my_update;
  auto server = server::make_server(rt, group.mailbox(), std::move(options));
  if (!server.ok()) co_return server.status();
  co_await over.wait_until(rt.now() + 60 * kSecond);
  TR_CO_RETURN_IF_ERROR(co_await (*server)->settle());
  const std::scoped_lock lock(totals.mutex);
  totals.updates += (*server)->stats().updates;
  totals.pushes += (*server)->stats().pushes;
  co_return Status();
}

Task<void> rank_main(runtime::Runtime& rt, int rank, Totals& totals, Status& status) {
  net::ConnectOptions connect;
  connect.rank = rank;
  connect.world = kWorkers + kServers;
  auto transport = co_await net::connect_transport(rt, "inproc", connect);
  comm::GroupOptions options;
  auto group = comm::make_group(rt, std::move(*transport), options);
  if (rank < kWorkers)
    status = co_await work(rt, **group);
  else
    status = co_await serve(rt, **group, totals);
  if (!status.ok()) (*group)->fail("kvstore", status.message());
  const Status left = co_await (*group)->leave();
  if (status.ok()) status = left;
}

int main() {
  const auto fabric = runtime::make_fabric();
  Totals totals;
  std::vector<Status> statuses(kWorkers + kServers);
  std::vector<std::function<void()>> bodies;
  for (int r = 0; r < kWorkers + kServers; ++r)
    bodies.emplace_back([&, r] {
      runtime::RealOptions real;
      real.name = fmt::format("rank {}", r);
      real.compute_threads = 1;
      real.fabric = fabric;
      const auto rt = runtime::make_real_runtime(real);
      rt->run(rank_main(*rt, r, totals, statuses[static_cast<std::size_t>(r)]));
    });
  runtime::run_in_threads(std::move(bodies));
  for (const Status& s : statuses)
    if (!s.ok()) return fmt::print("{}\n", s.to_string()), 1;
  fmt::print("{} updates from {} pushes\n", totals.updates, totals.pushes);
}
