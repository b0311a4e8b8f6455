// Sums of gradients that backward writes into the memory of a GPU: what comm/sum has for the host.
#pragma once

#include <memory>

#include "trireme/comm/device/device_sum.h"
#include "trireme/comm/sum/gradient_sum.h"

namespace trireme::comm {

// On GPUs: vector number `vector` of `sum`, which all buckets share. What encoders keep is on the GPU;
// state() is memory of the host, filled by fetch_state() and put there before the first sum.
std::unique_ptr<GradientSum> make_device_gradients(std::shared_ptr<DeviceSum> sum, std::size_t vector,
                                                   SumSpec spec);

// Through the host: vectors are copied down, added by `host`, and the sum is copied up.
std::unique_ptr<GradientSum> make_staged_gradients(runtime::Runtime& rt, std::shared_ptr<Device> device,
                                                   std::unique_ptr<GradientSum> host);

// One shard has nothing to add.
std::unique_ptr<GradientSum> make_lone_gradients(std::shared_ptr<Device> device, std::int64_t num_elems);

}  // namespace trireme::comm
