// A schedule as a picture: who sends what to whom in which round. Text for a terminal, SVG for a page.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trireme/collective/schedule.h"

namespace trireme::collective {

// Above this many ranks a picture is no longer readable: text then tells sums per round, SVG is refused.
inline constexpr int kMaxDrawnWorld = 16;

// A message, or a read of a peer's memory, with the round it takes place in: 1 and up, the number of messages
// on the longest chain that ends with it (a read counts as taking place in the round after what it waits
// for).
struct DrawnMessage {
  std::int64_t round = 0;
  int from = 0, to = 0;
  std::int64_t count = 0;                // elements
  int first_chunk = -1, num_chunks = 0;  // of the vector, as the messages cut it; -1: no place in the vector
  bool is_added = false;                 // else it is put in place
  bool is_read = false;
};
// By round, then sender, then in the order of its program. Additions that follow a plain recv are told of the
// message they add.
std::vector<DrawnMessage> messages_by_round(std::span<const RankProgram> programs);

// A grid of rounds and ranks. `only_rank` >= 0: the messages of that rank only.
std::string draw_text(std::span<const RankProgram> programs, const ScheduleSpec& spec, int only_rank = -1);

// A space-time diagram: ranks are lanes, time goes right by rounds, messages are arrows in the colour of
// their chunk, additions are filled dots. `title` is plain text. kInvalid beyond kMaxDrawnWorld ranks.
Result<std::string> draw_svg(std::span<const RankProgram> programs, const ScheduleSpec& spec,
                             std::string_view title);

}  // namespace trireme::collective
