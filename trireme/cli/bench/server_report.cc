#include "trireme/cli/bench/server_report.h"

#include "trireme/cli/bench/sizes.h"

namespace trireme::cli::bench {

std::string server_table_header(const std::string& transport, const cost::LinkModel& link) {
  return fmt::format(
      "parameter servers over {}: every worker pushes one vector to each server and pulls it; link {:.2f} "
      "GB/s, {:.1f} us\n"
      "workers  servers    bytes     round us    +-   messages/s     GB/s    limit   of it\n",
      transport, link.bytes_per_second * 1e-9, static_cast<double>(link.latency_ns) * 1e-3);
}

std::string server_table_row(const measure::ServerFigures& f, int cores) {
  const double limit = f.share_of_bound() > 0 ? f.bytes_per_second() / f.share_of_bound() : 0;
  return fmt::format("{:>7}{:>9}{:>9}{:>13.1f}{:>5.0f}%{:>12.0f}{:>9.3f}{:>9.3f}{:>7.0f}%{}\n",
                     f.setup.workers, f.setup.servers, short_bytes(f.setup.bytes), f.round_us, 50 * f.spread,
                     f.messages_per_second(), f.bytes_per_second() * 1e-9, limit * 1e-9,
                     100 * f.share_of_bound(),
                     f.setup.workers + f.setup.servers > cores ? "  more ranks than cores" : "");
}

Json server_json(const std::vector<measure::ServerFigures>& rows, const cost::LinkModel& link,
                 const std::string& link_source) {
  Json out = Json::object();
  out["link"] = {{"bytes_per_second", link.bytes_per_second},
                 {"latency_us", static_cast<double>(link.latency_ns) * 1e-3},
                 {"source", link_source}};
  out["rows"] = Json::array();
  for (const measure::ServerFigures& f : rows)
    out["rows"].push_back({{"transport", f.setup.transport},
                           {"workers", f.setup.workers},
                           {"servers", f.setup.servers},
                           {"bytes", f.setup.bytes},
                           {"round_us", f.round_us},
                           {"spread", f.spread},
                           {"rounds", f.rounds},
                           {"messages_per_second", f.messages_per_second()},
                           {"bytes_per_second", f.bytes_per_second()},
                           {"bound_us", f.bound_us},
                           {"share_of_bound", f.share_of_bound()}});
  return out;
}

}  // namespace trireme::cli::bench
