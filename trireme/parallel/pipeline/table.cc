#include <fmt/format.h>
#include <array>

#include "trireme/base/near_names.h"
#include "trireme/parallel/pipeline/timetable.h"

namespace trireme::parallel {

// Each is defined in a file of its own.
extern const TimetableRow kGpipe, kOneFOneB, kInterleaved, kZbH1, kZbH2, kAsync, kTwoBw;

std::span<const TimetableRow> timetable_table() {
  static const std::array kTable = {kGpipe, kOneFOneB, kInterleaved, kZbH1, kZbH2, kAsync, kTwoBw};
  return kTable;
}

Result<const TimetableRow*> find_timetable_row(std::string_view name) {
  std::vector<std::string_view> names;
  for (const TimetableRow& row : timetable_table()) {
    if (row.name == name) return &row;
    names.emplace_back(row.name);
  }
  const std::string near = did_you_mean(name, names);
  return error(Code::kInvalid, "[pipeline] no timetable is called '{}'{} Expected one of: {}", name,
               near.empty() ? "." : near, fmt::join(names, ", "));
}

}  // namespace trireme::parallel
