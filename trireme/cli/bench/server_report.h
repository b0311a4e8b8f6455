// Measured parameter servers as people and machines read them. Pure: text out of values.
#pragma once

#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/measure/server_case.h"

namespace trireme::cli::bench {

std::string server_table_header(const std::string& transport, const cost::LinkModel& link);
std::string server_table_row(const measure::ServerFigures& figures, int cores);
Json server_json(const std::vector<measure::ServerFigures>& rows, const cost::LinkModel& link,
                 const std::string& link_source);

}  // namespace trireme::cli::bench
