// Calibration: the cost model of one host as `trireme calibrate` measured it. A value; its file is JSON.
//
// Links are fitted to ping-pongs: one message of n bytes takes latency + message_overhead + n / bandwidth
// (L + o + n G). Fits minimise relative errors of the medians of the repeats. Spreads are
// (third quartile - first quartile) / median.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/base/json.h"
#include "trireme/cost/comm_model.h"
#include "trireme/cost/op_times.h"

namespace trireme::cost {

// A measured time per size.
struct TimedSize {
  std::uint64_t bytes = 0;
  double seconds = 0;  // median of the repeats
  double spread = 0;
};

struct TransportCalibration {
  std::string transport;  // "shm"
  LinkModel link;         // one message from one rank to another of this host
  // The same latency when ranks block instead of spinning, as they do with more ranks than cores.
  TimeNs blocking_latency_ns = 0;
  // Copying from a peer's memory in place; 0: the transport cannot.
  double peer_bytes_per_second = 0;
  double fit_error = 0;  // median of |fit / measured - 1| over the sizes
  double spread = 0;     // median over the sizes
  std::vector<TimedSize> measured;
};

// So many cores that computed at the same time.
struct BusyCores {
  int cores = 1;
  double flops_per_second_per_core = 0;
  double bytes_per_second = 0;  // that all of them copy together
  friend bool operator==(const BusyCores&, const BusyCores&) = default;
};

struct Calibration {
  std::string host;
  std::string date;      // "2026-01-31T12:00:00Z"
  MachineModel machine;  // rates of one core, its copying included
  // Rates of all cores at once; 0: not measured (files of older versions).
  double host_bytes_per_second = 0;
  std::vector<BusyCores> busy = {};  // 1, 2, 4... all cores; empty: not measured (files of older versions)
  double reduce_seconds_per_byte = 0;
  double reduce_spread = 0;
  std::vector<TransportCalibration> transports;
  OpTimes op_times;                       // of jobs (`trireme calibrate JOB`)
  std::vector<std::string> ignored = {};  // what of the file makes no sense and was left out

  const TransportCalibration* find(std::string_view transport) const;  // null: not measured
  // The least number of busy cores that was measured of those from `cores` on, or the most; null: none was.
  const BusyCores* find_busy(int cores) const;
};

// seconds(n) = fixed + per_byte n, both kept at or above 0, with the least sum of relative errors (least
// squares, reweighted, so that a size measured while the host was busy does not bend the line). At least two
// sizes.
struct LineFit {
  double fixed = 0, per_byte = 0;
  double median_error = 0;  // median of |fit / measured - 1|
};
Result<LineFit> fit_line(const std::vector<TimedSize>& points);

// The model that prices collectives of `ranks_per_host` ranks per host over `transport`. kNotFound lists what
// was measured.
Result<CommModel> comm_model(const Calibration& calibration, std::string_view transport, int ranks_per_host);

Json to_json(const Calibration& calibration);
// Versions 1 (without op times) and 2. `what` names the source in errors. Refuses other versions, missing
// keys, rates that make no sense; op times that make none are left out and listed in `ignored`.
Result<Calibration> calibration_from_json(const Json& json);
Result<Calibration> load_calibration(std::string_view text, std::string_view what);
inline Result<Calibration> load_calibration(ByteView bytes, std::string_view what) {
  return load_calibration(as_text(bytes), what);
}

}  // namespace trireme::cost
