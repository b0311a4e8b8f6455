#include "trireme/collective/draw.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "trireme/collective/chains.h"

namespace trireme::collective {
namespace {

// Where in the vector a message's elements are: programs move stretches of buffer 0 and of partials, which
// have the same offsets; scratch has no place in the vector.
bool in_vector(const RankProgram& p, const Region& region) { return region.buffer <= p.num_partials; }

struct Stop {
  std::size_t rank, step;
};

class Collector {
 public:
  explicit Collector(std::span<const RankProgram> programs)
      : programs_(programs), depths_(chain_depths(programs, Loads(static_cast<int>(programs.size()), {}))) {
    for (std::size_t r = 0; r < programs.size(); ++r)
      for (std::size_t i = 0; i < programs[r].steps.size(); ++i)
        if (const Step& s = programs[r].steps[i]; is_recv(s.kind))
          recvs_[{s.peer, static_cast<int>(r), s.part}] = {r, i};
  }

  std::vector<DrawnMessage> collect() {
    for (std::size_t r = 0; r < programs_.size(); ++r)
      for (std::size_t i = 0; i < programs_[r].steps.size(); ++i) add(r, i);
    for (std::size_t m = 0; m < messages_.size(); ++m)
      if (places_[m].second >= 0) name_chunks(messages_[m], places_[m]);
    std::stable_sort(messages_.begin(), messages_.end(), [](const DrawnMessage& a, const DrawnMessage& b) {
      return std::tie(a.round, a.from) < std::tie(b.round, b.from);
    });
    return std::move(messages_);
  }

 private:
  void add(std::size_t r, std::size_t i) {
    const RankProgram& p = programs_[r];
    const Step& s = p.steps[i];
    if (s.kind != StepKind::kSend && !is_read(s.kind)) return;
    DrawnMessage m;
    m.count = s.count;
    m.is_read = is_read(s.kind);
    m.from = m.is_read ? s.peer : p.rank;
    m.to = m.is_read ? p.rank : s.peer;
    m.round = depths_[r][i].messages + (m.is_read ? 1 : 0);
    m.is_added = m.is_read ? s.kind == StepKind::kReadReduce : is_added({r, i});
    messages_.push_back(m);
    const bool placed = s.count > 0 && in_vector(p, s.src);
    places_.emplace_back(s.src.offset, placed ? s.count : -1);
    if (!placed) return;
    cuts_.insert(s.src.offset);
    cuts_.insert(s.src.offset + s.count);
  }

  // By its recv, or by what later adds the place that it was received in.
  bool is_added(Stop send) const {
    const Step& s = programs_[send.rank].steps[send.step];
    const auto it = recvs_.find({static_cast<int>(send.rank), s.peer, s.part});
    if (it == recvs_.end()) return false;
    const RankProgram& p = programs_[it->second.rank];
    const Step& recv = p.steps[it->second.step];
    if (recv.kind != StepKind::kRecv) return true;
    if (in_vector(p, recv.dst)) return false;
    const auto same = [&](const Region& a) {
      return a.buffer == recv.dst.buffer && a.offset == recv.dst.offset;
    };
    for (std::size_t i = it->second.step + 1; i < p.steps.size(); ++i)
      if (is_reduce(p.steps[i].kind) && (same(p.steps[i].src) || same(p.steps[i].dst))) return true;
    return false;
  }

  void name_chunks(DrawnMessage& m, std::pair<std::int64_t, std::int64_t> place) const {
    const auto index = [&](std::int64_t at) {
      return static_cast<int>(std::distance(cuts_.begin(), cuts_.find(at)));
    };
    m.first_chunk = index(place.first);
    m.num_chunks = index(place.first + place.second) - m.first_chunk;
  }

  std::span<const RankProgram> programs_;
  std::vector<std::vector<ChainDepth>> depths_;
  std::map<std::tuple<int, int, std::uint32_t>, Stop> recvs_;
  std::vector<DrawnMessage> messages_;
  std::vector<std::pair<std::int64_t, std::int64_t>> places_;  // offset, count; -1: none
  std::set<std::int64_t> cuts_;
};

std::string chunk_name(const DrawnMessage& m) {
  if (m.count == 0) return "signal";
  if (m.first_chunk < 0) return "block";
  if (m.num_chunks <= 1) return fmt::format("{}", m.first_chunk);
  return fmt::format("{}-{}", m.first_chunk, m.first_chunk + m.num_chunks - 1);
}

std::string cell_text(const DrawnMessage& m) {
  if (m.is_read) return fmt::format("{} {} {}", chunk_name(m), m.is_added ? "<+" : "<-", m.from);
  return fmt::format("{} {} {}", chunk_name(m), m.is_added ? "+>" : "->", m.to);
}

std::string legend(const ScheduleSpec& spec, const std::vector<DrawnMessage>& messages) {
  int chunks = 0;
  bool added = false, kept = false, read = false;
  for (const DrawnMessage& m : messages) {
    chunks = std::max(chunks, m.first_chunk + m.num_chunks);
    (m.is_added ? added : kept) = true;
    read = read || m.is_read;
  }
  std::string text =
      fmt::format("{} in {} chunk{}.", format_bytes(spec.bytes()), chunks, chunks == 1 ? "" : "s");
  if (added && !read) text += " 'c +> r': chunk c goes to rank r, which adds it.";
  if (kept && !read) text += " 'c -> r': to rank r, which keeps it.";
  if (read) text += " 'c <+ r': chunk c is read from rank r and added; '<-': copied; 'signal': no elements.";
  return text + "\n";
}

// Beyond what a grid can show.
std::string draw_sums(const std::vector<DrawnMessage>& messages, const ScheduleSpec& spec) {
  std::string text = fmt::format("{} ranks are too many to draw (at most {}): sums per round.\n", spec.world,
                                 kMaxDrawnWorld);
  for (std::size_t i = 0; i < messages.size();) {
    std::size_t end = i;
    std::int64_t elems = 0, most = 0;
    for (; end < messages.size() && messages[end].round == messages[i].round; ++end) {
      elems += messages[end].count;
      most = std::max(most, messages[end].count);
    }
    const auto bytes = [&](std::int64_t n) {
      return format_bytes(static_cast<std::uint64_t>(n * spec.elem_bytes));
    };
    text += fmt::format("{:5}  {} messages, {} together, at most {} each\n", messages[i].round, end - i,
                        bytes(elems), bytes(most));
    i = end;
  }
  return text;
}

}  // namespace

std::vector<DrawnMessage> messages_by_round(std::span<const RankProgram> programs) {
  return Collector(programs).collect();
}

std::string draw_text(std::span<const RankProgram> programs, const ScheduleSpec& spec, int only_rank) {
  std::vector<DrawnMessage> messages = messages_by_round(programs);
  if (only_rank >= 0)
    std::erase_if(messages, [&](const DrawnMessage& m) { return m.from != only_rank && m.to != only_rank; });
  if (messages.empty()) return "No messages.\n";
  std::string text = legend(spec, messages);
  if (spec.world > kMaxDrawnWorld && only_rank < 0) return draw_sums(messages, spec);
  std::size_t width = 8;
  for (const DrawnMessage& m : messages) width = std::max(width, cell_text(m).size() + 2);
  // The ranks that do something: what a rank sends, or reads, is in its column.
  const auto column = [](const DrawnMessage& m) { return m.is_read ? m.to : m.from; };
  std::map<int, std::size_t> columns;
  for (const DrawnMessage& m : messages) columns[column(m)] = 0;
  text += "round  ";
  std::size_t next = 0;
  for (auto& [rank, number] : columns) {
    number = next++;
    text += fmt::format("{:<{}}", fmt::format("rank {}", rank), width);
  }
  for (std::size_t i = 0; i < messages.size();) {
    std::vector<std::vector<std::string>> cells(columns.size());
    const std::int64_t round = messages[i].round;
    std::size_t lines = 0;
    for (; i < messages.size() && messages[i].round == round; ++i) {
      auto& cell = cells[columns[column(messages[i])]];
      cell.push_back(cell_text(messages[i]));
      lines = std::max(lines, cell.size());
    }
    for (std::size_t line = 0; line < lines; ++line) {
      while (text.back() == ' ') text.pop_back();
      text += line == 0 ? fmt::format("\n{:5}  ", round) : "\n       ";
      for (const auto& cell : cells)
        text += fmt::format("{:<{}}", line < cell.size() ? cell[line] : "", width);
    }
  }
  while (text.back() == ' ') text.pop_back();
  return text + "\n";
}

}  // namespace trireme::collective
