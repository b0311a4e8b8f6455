#include "trireme/kernel/cuda/cuda.h"

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {
namespace {

// Operations of a multiprocessor in a cycle, sparse ones not counted ("CUDA C++ Programming Guide",
// arithmetic throughput; "NVIDIA H100 Tensor Core GPU Architecture", 2022).
struct Row {
  int major, minor;
  double f32, f16;  // f16 and bf16 alike; tf32: half of them
};
constexpr Row kRows[] = {{7, 0, 128, 1024}, {7, 5, 128, 1024}, {8, 0, 128, 2048},  {8, 6, 256, 512},
                         {8, 9, 256, 512},  {9, 0, 256, 4096}, {10, 0, 256, 8192}, {12, 0, 256, 512}};

double operations(const DeviceFacts& facts, std::string_view precision) {
  Row best = kRows[0];  // the newest one that is not newer than the device
  for (const Row& row : kRows)
    if (row.major < facts.major || (row.major == facts.major && row.minor <= facts.minor)) best = row;
  return precision == "f32" ? best.f32 : precision == "tf32" ? best.f16 / 2 : best.f16;
}

}  // namespace

PeakRates peak_rates(const CudaDevice& device, std::string_view precision) {
  PeakRates rates;
  if (device.only_compiles()) return rates;
  const auto read = [&](CUdevice_attribute what) {
    int value = 0;
    return device.lib().cuDeviceGetAttribute(&value, what, device.raw()) == CUDA_SUCCESS ? value : 0;
  };
  constexpr double kKilo = 1e3;
  const double cycles = kKilo * read(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  const double transfers = 2 * kKilo * read(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);  // two in a cycle
  rates.flops_per_second = device.facts().multiprocessors * cycles * operations(device.facts(), precision);
  rates.bytes_per_second = transfers * read(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
  return rates;
}

}  // namespace trireme::kernel::cuda
