// Topologies whose routers are joined with one another directly: torus, dragonfly, Slim Fly.
#include <algorithm>
#include <set>

#include "trireme/cost/graph_maker.h"

namespace trireme::cost {

Result<Topology> torus(std::span<const int> sizes, const MachineModel& machine, const LinkModel& link) {
  std::int64_t n = 1;
  for (const int size : sizes) {
    TR_RETURN_IF_ERROR(check_at_least("torus", "a size", size, 1));
    TR_RETURN_IF_ERROR(check_product("torus", {static_cast<int>(n), size}));
    n *= size;
  }
  if (sizes.empty() || n < 2)
    return error(Code::kInvalid, "[cost] topology torus: got {} machines, expected sizes like 4, 4, 2", n);
  GraphMaker g("torus", static_cast<int>(n), machine);
  g.topology().machines_forward = true;
  // Links in order of dimension, which is the order in which ways are gone.
  std::int64_t stride = 1;
  for (const int size : sizes) {
    for (std::int64_t m = 0; m < n && size > 1; ++m) {
      const std::int64_t at = m / stride % size;
      const std::int64_t next = m + ((at + 1) % size - at) * stride;
      if (size > 2 || at == 0) g.cable(static_cast<std::int32_t>(m), static_cast<std::int32_t>(next), link);
    }
    stride *= size;
  }
  for (std::int64_t m = 0; m < n; ++m)
    g.put_in_group(static_cast<std::int32_t>(m), static_cast<std::int32_t>(m / sizes[0]));
  return g.take();
}

Result<Topology> dragonfly(const DragonflySpec& spec, const MachineModel& machine, const LinkModel& link) {
  TR_RETURN_IF_ERROR(check_at_least("dragonfly", "groups", spec.num_groups, 1));
  TR_RETURN_IF_ERROR(check_at_least("dragonfly", "routers", spec.routers, 1));
  TR_RETURN_IF_ERROR(check_at_least("dragonfly", "per_router", spec.per_router, 1));
  TR_RETURN_IF_ERROR(check_product("dragonfly", {spec.num_groups, spec.routers, spec.per_router}));
  // Every group has a cable to every other, every router of a group to every other.
  TR_RETURN_IF_ERROR(check_product("dragonfly", {spec.num_groups, spec.num_groups}));
  TR_RETURN_IF_ERROR(check_product("dragonfly", {spec.num_groups, spec.routers, spec.routers}));
  const int per_group = spec.routers * spec.per_router;
  GraphMaker g("dragonfly", spec.num_groups * per_group, machine);
  g.topology().spread = Spread::kHash;
  const int n = g.topology().num_machines();
  const auto router = [&](int group, int i) { return n + group * spec.routers + i; };
  const LinkModel inside = switch_link(spec.local_latency_ns, link.bytes_per_second);
  const LinkModel between = switch_link(spec.global_latency_ns, link.bytes_per_second);
  for (int r = 0; r < spec.num_groups * spec.routers; ++r) g.add_switch(0);
  for (int m = 0; m < n; ++m) {
    g.attach(m, n + m / spec.per_router, link);
    g.put_in_group(m, m / per_group);
  }
  for (int group = 0; group < spec.num_groups; ++group)
    for (int a = 0; a < spec.routers; ++a)
      for (int b = a + 1; b < spec.routers; ++b) g.cable(router(group, a), router(group, b), inside);
  // The cables of a group go round its routers, so that each has its share. Where a group has more routers
  // than other groups, pairs of groups get several.
  const int copies = std::max(1, spec.num_groups > 1 ? spec.routers / (spec.num_groups - 1) : 1);
  std::vector<int> used(static_cast<std::size_t>(spec.num_groups), 0);
  for (int copy = 0; copy < copies; ++copy)
    for (int distance = 1; distance < spec.num_groups; ++distance)
      for (int a = 0; a + distance < spec.num_groups; ++a) {
        const int b = a + distance;
        const auto take = [&](int group) {
          return router(group, used[static_cast<std::size_t>(group)]++ % spec.routers);
        };
        g.cable(take(a), take(b), between);
      }
  return g.take();
}

namespace {

bool is_prime(int q) {
  for (int d = 2; d * d <= q; ++d)
    if (q % d == 0) return false;
  return q > 1;
}

// Whether the powers of x modulo q are all of 1 .. q-1.
bool is_primitive(int x, int q) {
  int power = x % q, order = 1;
  for (; power != 1; power = power * x % q) ++order;
  return order == q - 1;
}

}  // namespace

Result<Topology> slim_fly(const SlimFlySpec& spec, const MachineModel& machine, const LinkModel& link) {
  const int q = spec.q;
  if (q > 101 || q % 4 != 1 || !is_prime(q))
    return error(Code::kInvalid,
                 "[cost] topology slim-fly: q is {}, expected a prime 4 w + 1: 5, 13, 17, 29, 37...", q);
  TR_RETURN_IF_ERROR(check_at_least("slim-fly", "per_router", spec.per_router, 1));
  TR_RETURN_IF_ERROR(check_at_least("slim-fly", "machines", spec.num_machines, 1));
  TR_RETURN_IF_ERROR(check_product("slim-fly", {2, q, q, spec.per_router}));
  if (spec.num_machines > 2 * q * q * spec.per_router)
    return error(Code::kInvalid, "[cost] topology slim-fly: q = {} holds {} machines, got {}; use a larger q",
                 q, 2 * q * q * spec.per_router, spec.num_machines);
  int generator = 2;
  while (!is_primitive(generator, q)) ++generator;
  // Even and odd powers of a primitive element: both sets are their own negatives when q = 4 w + 1.
  std::set<int> even, odd;
  for (int i = 0, power = 1; i < q - 1; ++i, power = power * generator % q)
    (i % 2 == 0 ? even : odd).insert(power);
  GraphMaker g("slim-fly", spec.num_machines, machine);
  g.topology().spread = Spread::kHash;
  for (int r = 0; r < 2 * q * q; ++r) g.add_switch(0);
  for (int m = 0; m < spec.num_machines; ++m) {
    g.attach(m, spec.num_machines + m / spec.per_router, link);
    g.put_in_group(m, m / spec.per_router / q);
  }
  const LinkModel between = switch_link(spec.switch_latency_ns, link.bytes_per_second);
  const auto router = [&](int half, int column, int row) {
    return spec.num_machines + (half * q + column) * q + row;
  };
  for (int x = 0; x < q; ++x)
    for (int y = 0; y < q; ++y) {
      for (int other = y + 1; other < q; ++other) {
        if (even.count(other - y) > 0) g.cable(router(0, x, y), router(0, x, other), between);
        if (odd.count(other - y) > 0) g.cable(router(1, x, y), router(1, x, other), between);
      }
      // (0, x, y) and (1, m, c) are joined when y = m x + c.
      for (int m = 0; m < q; ++m) g.cable(router(0, x, y), router(1, m, ((y - m * x) % q + q) % q), between);
    }
  return g.take();
}

}  // namespace trireme::cost
