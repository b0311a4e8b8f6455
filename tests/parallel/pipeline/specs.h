// What the tests of timetables walk: every row with many numbers.
#pragma once

#include "trireme/parallel/pipeline/timetable.h"

namespace trireme::parallel {

template <typename Visit>
void for_each_spec(Visit visit, int most_stages = 12, int most_micro_batches = 33) {
  for (const TimetableRow& row : timetable_table())
    for (int stages = 1; stages <= most_stages; ++stages)
      for (int virtual_stages = 1; virtual_stages <= 4; ++virtual_stages)
        for (int micro_batches = 1; micro_batches <= most_micro_batches; ++micro_batches) {
          const TimetableSpec spec{row.name, stages, virtual_stages, micro_batches};
          if (check_timetable(spec).ok()) visit(row, spec);
        }
}

inline std::string text_of(const TimetableSpec& spec) {
  return fmt::format("{}, {} stages x {}, {} micro-batches, update every {}", spec.kind, spec.stages,
                     spec.virtual_stages, spec.micro_batches, spec.update_every);
}

}  // namespace trireme::parallel
