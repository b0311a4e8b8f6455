#include "trireme/cost/comm_model.h"

#include <algorithm>

namespace trireme::cost {

double CommModel::reduce_seconds(double bytes) const {
  const double per_byte =
      reduce_seconds_per_byte > 0
          ? reduce_seconds_per_byte
          : std::max(3 / machine.bytes_per_second, 0.25 / machine.flops_per_second_per_core) / machine.speed;
  return bytes * per_byte;
}

double CommModel::peer_copy_seconds(double bytes) const {
  return peer_bytes_per_second > 0 ? bytes / peer_bytes_per_second
                                   : 2 * bytes / (machine.bytes_per_second * machine.speed);
}

double CommModel::crowding() const {
  return std::max(1.0, static_cast<double>(ranks_per_host) / std::max(1, machine.cores));
}

}  // namespace trireme::cost
