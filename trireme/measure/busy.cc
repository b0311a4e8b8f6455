#include "trireme/measure/busy.h"

#include <atomic>
#include <cstring>

#include "trireme/eager/context.h"
#include "trireme/eager/ops.h"
#include "trireme/measure/link.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::measure {
namespace {

// One call of each core's own work, again and again, until all have enough of them.
template <typename Make>
std::vector<double> seconds_of_each(int cores, int repeats, Make&& make) {
  std::vector<double> medians(static_cast<std::size_t>(cores));
  std::atomic<int> ready = 0, done = 0;
  std::vector<std::function<void()>> bodies;
  for (int core = 0; core < cores; ++core) {
    bodies.push_back([&, core] {
      runtime::RealOptions real;
      real.name = "busy";
      real.compute_threads = 1;
      const auto clock = runtime::make_real_runtime(real);
      auto call = make();
      call();  // memory is touched
      ++ready;
      while (ready < cores) {
      }
      std::vector<double> seconds;
      for (int i = 0; done < cores; ++i) {
        const TimeNs began = clock->now();
        call();
        if (i < repeats) seconds.push_back(to_seconds(clock->now() - began));
        if (i + 1 == repeats) ++done;
      }
      medians[static_cast<std::size_t>(core)] = summarise_repeats(std::move(seconds)).median;
    });
  }
  runtime::run_in_threads(std::move(bodies));
  return medians;
}

// Amount per second of all of them.
double total_rate(const std::vector<double>& seconds, double amount) {
  double sum = 0;
  for (const double s : seconds) sum += amount / s;
  return sum;
}

}  // namespace

Status measure_busy(bool quick, cost::Calibration& calibration) {
  const int all = runtime::num_cores(), repeats = quick ? 3 : 9;
  const std::int64_t n = quick ? 128 : 512;
  const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  const std::size_t bytes = quick ? (4U << 20) : (32U << 20);
  std::atomic<bool> failed = false;
  const auto product = [&] {
    auto context = std::make_shared<eager::Context>();
    const eager::Array x = context->full(0.5, TensorType{DType::kF32, Shape{n, n}});
    return [context, x, &failed] {
      const eager::NoGrad no_grad = context->no_grad();
      const eager::Array y = eager::matmul(x, x);
      if (!y.ok()) failed = true;
    };
  };
  const auto copy = [&] {
    auto from = std::make_shared<std::vector<std::byte>>(bytes, std::byte{1}),
         to = std::make_shared<std::vector<std::byte>>(bytes);
    return [from, to] { std::memcpy(to->data(), from->data(), from->size()); };
  };
  calibration.busy.clear();
  for (int cores = 1; cores <= all; cores = cores < all ? std::min(2 * cores, all) : all + 1) {
    cost::BusyCores one;
    one.cores = cores;
    one.flops_per_second_per_core = total_rate(seconds_of_each(cores, repeats, product), flops) / cores;
    one.bytes_per_second = total_rate(seconds_of_each(cores, repeats, copy), 2 * static_cast<double>(bytes));
    calibration.busy.push_back(one);
  }
  if (failed) return error(Code::kInternal, "[calibrate] a product of matrices failed");
  return {};
}

}  // namespace trireme::measure
