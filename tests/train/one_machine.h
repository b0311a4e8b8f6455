// A task on a virtual machine of its own, until it ends.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "trireme/runtime/virtual/world.h"

namespace trireme::train::testing {

inline void run_on_one_machine(const std::function<runtime::Task<void>(runtime::Runtime&)>& body) {
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(1, {}, {});
  const auto world = runtime::make_virtual_world(spec);
  runtime::Runtime& rt = world->add_runtime(0, "rank");
  world->start(rt, body(rt));
  const auto report = world->run(kForever);
  ASSERT_TRUE(report.finished) << report.stuck;
}

}  // namespace trireme::train::testing
