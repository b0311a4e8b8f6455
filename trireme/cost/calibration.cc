#include "trireme/cost/calibration.h"

#include <algorithm>
#include <cmath>

#include "trireme/cost/cost_json.h"

namespace trireme::cost {
namespace {

constexpr int kVersion = 2;  // 1 had no op times

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const std::size_t half = v.size() / 2;
  return v.size() % 2 == 1 ? v[half] : (v[half - 1] + v[half]) / 2;
}

// Least squares of the relative errors.
LineFit weighted_fit(const std::vector<TimedSize>& points, const std::vector<double>& weights) {
  double w = 0, wn = 0, wnn = 0, wt = 0, wnt = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double n = static_cast<double>(points[i].bytes), t = points[i].seconds,
                 weight = weights[i] / (t * t);
    w += weight;
    wn += weight * n;
    wnn += weight * n * n;
    wt += weight * t;
    wnt += weight * n * t;
  }
  const double determinant = w * wnn - wn * wn;
  LineFit fit{(wt * wnn - wnt * wn) / determinant, (w * wnt - wn * wt) / determinant, 0};
  if (fit.fixed < 0) fit = {0, wnt / wnn, 0};
  if (fit.per_byte < 0) fit = {wt / w, 0, 0};
  return fit;
}

Json to_json(const TransportCalibration& t) {
  Json sizes = Json::array();
  for (const TimedSize& m : t.measured)
    sizes.push_back({{"bytes", m.bytes}, {"seconds", m.seconds}, {"spread", m.spread}});
  return {{"transport", t.transport},
          {"link", to_json(t.link)},
          {"blocking_latency_ns", t.blocking_latency_ns},
          {"peer_bytes_per_second", t.peer_bytes_per_second},
          {"fit_error", t.fit_error},
          {"spread", t.spread},
          {"measured", sizes}};
}

Result<TransportCalibration> transport_from_json(const Json& json) {
  TransportCalibration t;
  TR_ASSIGN_OR_RETURN(t.transport, json_get<std::string>(json, "transport"));
  TR_ASSIGN_OR_RETURN(const Json link, json_get<Json>(json, "link"));
  TR_ASSIGN_OR_RETURN(t.link, link_from_json(link));
  TR_ASSIGN_OR_RETURN(t.blocking_latency_ns, json_get<TimeNs>(json, "blocking_latency_ns"));
  TR_ASSIGN_OR_RETURN(t.peer_bytes_per_second, json_get<double>(json, "peer_bytes_per_second"));
  TR_ASSIGN_OR_RETURN(t.fit_error, json_get<double>(json, "fit_error"));
  TR_ASSIGN_OR_RETURN(t.spread, json_get<double>(json, "spread"));
  TR_ASSIGN_OR_RETURN(const Json measured, json_get<Json>(json, "measured"));
  for (const Json& row : measured) {
    TimedSize m;
    TR_ASSIGN_OR_RETURN(m.bytes, json_get<std::uint64_t>(row, "bytes"));
    TR_ASSIGN_OR_RETURN(m.seconds, json_get<double>(row, "seconds"));
    TR_ASSIGN_OR_RETURN(m.spread, json_get<double>(row, "spread"));
    t.measured.push_back(m);
  }
  if (t.blocking_latency_ns < 0 || t.peer_bytes_per_second < 0)
    return error(Code::kInvalid, "[cost] the calibration of {} has a negative latency or bandwidth",
                 t.transport);
  return t;
}

Status take_busy(const Json& json, Calibration& c) {
  for (const Json& row : json) {
    BusyCores b;
    TR_ASSIGN_OR_RETURN(b.cores, json_get<int>(row, "cores"));
    TR_ASSIGN_OR_RETURN(b.flops_per_second_per_core, json_get<double>(row, "flops_per_second_per_core"));
    TR_ASSIGN_OR_RETURN(b.bytes_per_second, json_get<double>(row, "bytes_per_second"));
    const int before = c.busy.empty() ? 0 : c.busy.back().cores;
    if (b.cores <= before || !(b.flops_per_second_per_core > 0) || !(b.bytes_per_second > 0))
      return error(
          Code::kInvalid,
          "[cost] busy: {} cores with {} flops and {} bytes per second: expected more cores than {}, "
          "and rates above 0",
          b.cores, b.flops_per_second_per_core, b.bytes_per_second, before);
    c.busy.push_back(b);
  }
  return {};
}

}  // namespace

const TransportCalibration* Calibration::find(std::string_view transport) const {
  for (const TransportCalibration& t : transports)
    if (t.transport == transport) return &t;
  return nullptr;
}

const BusyCores* Calibration::find_busy(int cores) const {
  for (const BusyCores& b : busy)
    if (b.cores >= cores) return &b;
  return busy.empty() ? nullptr : &busy.back();
}

Result<LineFit> fit_line(const std::vector<TimedSize>& points) {
  bool two_sizes = false;
  for (const TimedSize& p : points) {
    if (!(p.seconds > 0))
      return error(Code::kInvalid, "[cost] cannot fit a time of {} s for {} bytes: expected more than 0",
                   p.seconds, p.bytes);
    two_sizes = two_sizes || p.bytes != points.front().bytes;
  }
  if (!two_sizes)
    return error(Code::kInvalid, "[cost] a fit needs two sizes: got {} points of one size or none",
                 points.size());
  const auto error_of = [](const LineFit& fit, const TimedSize& p) {
    return std::abs((fit.fixed + fit.per_byte * static_cast<double>(p.bytes)) / p.seconds - 1);
  };
  // Reweighted: in the end a point counts by its error, not by its square.
  constexpr int kRounds = 30;
  constexpr double kLeastError = 0.01;
  std::vector<double> weights(points.size(), 1);
  LineFit fit;
  for (int round = 0; round < kRounds; ++round) {
    fit = weighted_fit(points, weights);
    for (std::size_t i = 0; i < points.size(); ++i)
      weights[i] = 1 / std::max(error_of(fit, points[i]), kLeastError);
  }
  std::vector<double> errors;
  for (const TimedSize& p : points) errors.push_back(error_of(fit, p));
  fit.median_error = median(std::move(errors));
  return fit;
}

Result<CommModel> comm_model(const Calibration& calibration, std::string_view transport, int ranks_per_host) {
  const TransportCalibration* t = calibration.find(transport);
  if (t == nullptr) {
    std::string names;
    for (const TransportCalibration& known : calibration.transports)
      names += (names.empty() ? "" : ", ") + known.transport;
    return error(Code::kNotFound,
                 "[cost] the calibration of {} has no transport '{}': it has {}; run trireme calibrate "
                 "--transport {}",
                 calibration.host, transport, names.empty() ? "none" : names, transport);
  }
  CommModel model(t->link, calibration.machine);
  model.reduce_seconds_per_byte = calibration.reduce_seconds_per_byte;
  model.peer_bytes_per_second = t->peer_bytes_per_second;
  model.ranks_per_host = ranks_per_host;
  if (model.crowding() > 1) model.link.latency_ns = std::max(model.link.latency_ns, t->blocking_latency_ns);
  model.local = model.link;
  return model;
}

Json to_json(const Calibration& c) {
  Json transports = Json::array();
  for (const TransportCalibration& t : c.transports) transports.push_back(to_json(t));
  Json busy = Json::array();
  for (const BusyCores& b : c.busy)
    busy.push_back({{"cores", b.cores},
                    {"flops_per_second_per_core", b.flops_per_second_per_core},
                    {"bytes_per_second", b.bytes_per_second}});
  return {{"version", kVersion},
          {"host", c.host},
          {"date", c.date},
          {"machine", to_json(c.machine)},
          {"host_bytes_per_second", c.host_bytes_per_second},
          {"busy", busy},
          {"reduce_seconds_per_byte", c.reduce_seconds_per_byte},
          {"reduce_spread", c.reduce_spread},
          {"transports", transports},
          {"op_times", to_json(c.op_times)}};
}

Result<Calibration> calibration_from_json(const Json& json) {
  Calibration c;
  TR_ASSIGN_OR_RETURN(const int version, json_get<int>(json, "version"));
  if (version < 1 || version > kVersion)
    return error(Code::kCorrupt, "[cost] calibration version {} is not known here, expected 1 to {}", version,
                 kVersion);
  TR_ASSIGN_OR_RETURN(c.host, json_get<std::string>(json, "host"));
  TR_ASSIGN_OR_RETURN(c.date, json_get<std::string>(json, "date"));
  TR_ASSIGN_OR_RETURN(const Json machine, json_get<Json>(json, "machine"));
  TR_ASSIGN_OR_RETURN(c.machine, machine_from_json(machine));
  if (json.contains("host_bytes_per_second")) {
    TR_ASSIGN_OR_RETURN(c.host_bytes_per_second, json_get<double>(json, "host_bytes_per_second"));
  }
  if (!(c.host_bytes_per_second >= 0))
    return error(Code::kInvalid, "[cost] host_bytes_per_second is {}: expected 0 or more",
                 c.host_bytes_per_second);
  if (json.contains("busy")) TR_RETURN_IF_ERROR(take_busy(json["busy"], c));
  TR_ASSIGN_OR_RETURN(c.reduce_seconds_per_byte, json_get<double>(json, "reduce_seconds_per_byte"));
  TR_ASSIGN_OR_RETURN(c.reduce_spread, json_get<double>(json, "reduce_spread"));
  if (!(c.reduce_seconds_per_byte > 0))
    return error(Code::kInvalid, "[cost] reduce_seconds_per_byte is {}: expected more than 0",
                 c.reduce_seconds_per_byte);
  TR_ASSIGN_OR_RETURN(const Json transports, json_get<Json>(json, "transports"));
  for (const Json& row : transports) {
    TR_ASSIGN_OR_RETURN(TransportCalibration t, transport_from_json(row));
    if (c.find(t.transport) != nullptr)
      return error(Code::kInvalid, "[cost] transport {} is calibrated twice in one file", t.transport);
    c.transports.push_back(std::move(t));
  }
  if (json.contains("op_times")) c.op_times = op_times_from_json(json["op_times"], c.ignored);
  return c;
}

Result<Calibration> load_calibration(std::string_view text, std::string_view what) {
  const std::string next_step = "; run trireme calibrate to write it anew";
  const Result<Json> json = parse_json(text, what);
  if (!json.ok()) return Status(json.status().code(), json.status().message() + next_step);
  Result<Calibration> calibration = calibration_from_json(*json);
  if (calibration.ok()) return calibration;
  return Status(calibration.status().code(),
                fmt::format("{}: {}{}", what, calibration.status().message(), next_step));
}

}  // namespace trireme::cost
