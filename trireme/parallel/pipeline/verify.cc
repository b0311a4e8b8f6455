#include "trireme/parallel/pipeline/verify.h"

#include <fmt/format.h>
#include <algorithm>
#include <deque>

#include "trireme/parallel/pipeline/messages.h"

namespace trireme::parallel {
namespace {

template <typename... Args>
Status refused(int stage, fmt::format_string<Args...> text, Args&&... args) {
  return error(Code::kInternal, "[pipeline] timetable of stage {}: {}", stage,
               fmt::format(text, std::forward<Args>(args)...));
}

// The rules for one stage alone.
class StageCheck {
 public:
  StageCheck(const TimetableSpec& spec, const TimetableRow& row, int stage)
      : spec_(spec),
        row_(row),
        stage_(stage),
        in_flight_allowed_(row.in_flight(spec, stage)),
        done_(static_cast<std::size_t>(spec.virtual_stages) * static_cast<std::size_t>(spec.micro_batches)),
        chunks_(static_cast<std::size_t>(spec.virtual_stages)) {}

  Status check(const StageActions& actions) {
    for (const TimetableAction& a : actions) {
      TR_RETURN_IF_ERROR(check_place(a));
      TR_RETURN_IF_ERROR(a.phase == Phase::kUpdate ? update(a) : compute(a));
    }
    for (int chunk = 0; chunk < spec_.virtual_stages; ++chunk) TR_RETURN_IF_ERROR(check_end(chunk));
    return {};
  }

 private:
  struct Chunk {
    int weights = 0;  // micro-batches whose W is done
    int updates = 0;
  };

  Chunk& chunk_of(const TimetableAction& a) {
    return chunks_[static_cast<std::size_t>(a.virtual_stage / spec_.stages)];
  }
  // Phases done; they come in order.
  std::uint8_t& done_of(int micro_batch, int chunk) {
    return done_[static_cast<std::size_t>(chunk) * static_cast<std::size_t>(spec_.micro_batches) +
                 static_cast<std::size_t>(micro_batch)];
  }
  // Micro-batches whose gradients were applied.
  std::int64_t applied(const Chunk& c) const { return std::int64_t{c.updates} * row_.update_every(spec_); }
  // The last micro-batch of the next update.
  int last_of_update(const Chunk& c) const {
    const std::int64_t end = applied(c) + row_.update_every(spec_);
    return static_cast<int>(std::min<std::int64_t>(end, spec_.micro_batches)) - 1;
  }

  Status check_place(const TimetableAction& a) const {
    if (a.micro_batch < 0 || a.micro_batch >= spec_.micro_batches || a.virtual_stage < 0 ||
        a.virtual_stage >= spec_.chain() || spec_.stage_of(a.virtual_stage) != stage_)
      return refused(stage_, "{} is not of this stage and step", a.to_text());
    return {};
  }

  Status compute(const TimetableAction& a) {
    std::uint8_t& done = done_of(a.micro_batch, a.virtual_stage / spec_.stages);
    const auto phase = static_cast<std::uint8_t>(a.phase);
    if (done > phase) return refused(stage_, "{} is there twice", a.to_text());
    if (done < phase)
      return refused(stage_, "{} comes before its {}", a.to_text(),
                     phase_letter(static_cast<Phase>(phase - 1)));
    ++done;
    Chunk& c = chunk_of(a);
    if (a.phase == Phase::kForward) return forward(a, c);
    if (a.phase == Phase::kBackward) return {};
    if (a.micro_batch != c.weights)
      return refused(stage_, "{} comes before that of micro-batch {}", a.to_text(), c.weights);
    if (a.micro_batch > last_of_update(c))
      return refused(stage_, "{} comes before the update after micro-batch {}", a.to_text(),
                     last_of_update(c));
    ++c.weights;
    --in_flight_;
    return {};
  }

  Status forward(const TimetableAction& a, Chunk& c) {
    if (++in_flight_ > in_flight_allowed_)
      return refused(stage_, "{} makes {} micro-batches in flight, expected at most {}", a.to_text(),
                     in_flight_, in_flight_allowed_);
    const int version = row_.version_read(spec_, stage_, a.micro_batch);
    // Weights that are not stashed are there in one version only.
    if (version > c.updates || (!spec_.weight_stashing && version < c.updates))
      return refused(stage_, "{} reads the weights after {} updates, and there were {}", a.to_text(), version,
                     c.updates);
    return {};
  }

  Status update(const TimetableAction& a) {
    Chunk& c = chunk_of(a);
    if (a.micro_batch < applied(c)) return refused(stage_, "{} is there twice", a.to_text());
    if (a.micro_batch != last_of_update(c) || c.weights != a.micro_batch + 1)
      return refused(stage_, "{} comes after W of {} micro-batches, expected an update after {}", a.to_text(),
                     c.weights, last_of_update(c) + 1);
    ++c.updates;
    // Versions stand in the order of the micro-batches that read them: from the oldest unfinished one's to
    // the newest.
    if (c.weights == spec_.micro_batches || !spec_.weight_stashing) return {};
    const int oldest = std::min(row_.version_read(spec_, stage_, c.weights), c.updates);
    if (const int versions = c.updates - oldest + 1; versions > row_.weight_versions(spec_, stage_))
      return refused(stage_, "{} makes {} versions of weights, expected at most {}", a.to_text(), versions,
                     row_.weight_versions(spec_, stage_));
    return {};
  }

  Status check_end(int chunk) {
    const int virtual_stage = chunk * spec_.stages + stage_;
    for (int m = 0; m < spec_.micro_batches; ++m)
      if (const std::uint8_t done = done_of(m, chunk); done < static_cast<std::uint8_t>(Phase::kUpdate))
        return refused(stage_, "{} is missing",
                       TimetableAction{static_cast<Phase>(done), m, virtual_stage}.to_text());
    const Chunk& c = chunks_[static_cast<std::size_t>(chunk)];
    if (applied(c) < spec_.micro_batches)
      return refused(stage_, "{} is missing",
                     TimetableAction{Phase::kUpdate, last_of_update(c), virtual_stage}.to_text());
    return {};
  }

  const TimetableSpec& spec_;
  const TimetableRow& row_;
  const int stage_, in_flight_allowed_;
  std::vector<std::uint8_t> done_;
  std::vector<Chunk> chunks_;
  int in_flight_ = 0;
};

// Runs all stages as far as they go. Which one goes first does not matter: an action that may start can only
// be waited for, never be taken away.
class Rendezvous {
 public:
  Rendezvous(const TimetableSpec& spec, const TimetableRow& row, std::span<const StageActions> stages)
      : spec_(spec),
        row_(row),
        stages_(stages),
        receives_ahead_(static_cast<std::size_t>(row.receives_ahead)),
        next_(stages.size(), 0),
        held_(stages.size(), 0),
        links_(2 * stages.size()),
        slots_(num_places(spec)) {}

  Status run() {
    for (int s = 0; s < spec_.stages; ++s) open_.push_back(s);
    while (!open_.empty()) {
      const int stage = open_.back();
      open_.pop_back();
      while (advance(stage)) {
      }
    }
    for (int s = 0; s < spec_.stages; ++s)
      if (!ended(s)) return cycle_from(s);
    return {};
  }

 private:
  struct Slot {
    int sends = 0;  // that have not ended
    bool is_computed = false;
  };
  struct Link {
    std::deque<StageMessage> messages;  // sent, and not taken
    std::size_t num_received = 0;       // of them, at the front
  };
  // Why a stage does not go on, and for which stage it waits.
  struct Wait {
    int stage;
    std::string text;
  };

  bool ended(int stage) const {
    return next_[static_cast<std::size_t>(stage)] == stages_[static_cast<std::size_t>(stage)].size();
  }
  const TimetableAction& next(int stage) const {
    return stages_[static_cast<std::size_t>(stage)][next_[static_cast<std::size_t>(stage)]];
  }
  bool has_slot(int stage) const {
    return held_[static_cast<std::size_t>(stage)] < row_.in_flight(spec_, stage);
  }
  bool is_local(const StageMessage& m) const { return spec_.stage_of(m.from) == spec_.stage_of(m.to); }

  bool advance(int stage) {
    if (ended(stage)) return false;
    const TimetableAction& a = next(stage);
    if (a.phase == Phase::kForward && !has_slot(stage)) return false;
    if (const StageMessage m = awaited_by(spec_, a); m.exists() && !take(m)) return false;
    Slot& slot = slots_[place_of(spec_, a.micro_batch, a.virtual_stage)];
    if (a.phase == Phase::kForward) ++held_[static_cast<std::size_t>(stage)];
    if (const StageMessage m = sent_by(spec_, row_, a); m.exists()) {
      Link& link = links_[link_of(spec_, m)];
      link.messages.push_back(m);
      if (!is_local(m)) {  // else it is in the receiver's slot at once
        ++slot.sends;
        receive_ahead(link);
      }
      open_.push_back(spec_.stage_of(m.to));
    }
    if (a.phase == Phase::kWeights) {
      slot.is_computed = true;
      release(slot, stage);
    }
    ++next_[static_cast<std::size_t>(stage)];
    return true;
  }

  // Takes a message that the stage has come to.
  bool take(const StageMessage& m) {
    Link& link = links_[link_of(spec_, m)];
    if (is_local(m)) {  // found in any order
      const auto found = std::find(link.messages.begin(), link.messages.end(), m);
      if (found == link.messages.end()) return false;
      link.messages.erase(found);
      return true;
    }
    if (link.messages.empty() || link.messages.front() != m) return false;
    if (link.num_received == 0) receive(link);
    link.messages.pop_front();
    --link.num_received;
    receive_ahead(link);
    return true;
  }

  void receive_ahead(Link& link) {
    while (link.num_received < std::min(link.messages.size(), receives_ahead_)) receive(link);
  }
  // Its next message.
  void receive(Link& link) {
    const StageMessage& m = link.messages[link.num_received++];
    Slot& slot = slots_[place_of(spec_, m.micro_batch, m.from)];
    --slot.sends;
    release(slot, spec_.stage_of(m.from));
  }

  void release(const Slot& slot, int stage) {
    if (!slot.is_computed || slot.sends > 0) return;
    --held_[static_cast<std::size_t>(stage)];
    open_.push_back(stage);
  }

  Wait wait_of(int stage) const {
    const TimetableAction& a = next(stage);
    if (a.phase == Phase::kForward && !has_slot(stage)) {
      for (const Link& link : links_)
        for (const StageMessage& m : link.messages)
          if (spec_.stage_of(m.from) == stage && slots_[place_of(spec_, m.micro_batch, m.from)].is_computed)
            return {spec_.stage_of(m.to),
                    fmt::format("for the slot of micro-batch {}, which stage {} has not "
                                "received",
                                m.micro_batch, spec_.stage_of(m.to))};
      return {stage, "for a slot"};
    }
    const StageMessage m = awaited_by(spec_, a);
    const auto what = m.is_gradient ? "gradients" : "activations";
    const std::deque<StageMessage>& messages = links_[link_of(spec_, m)].messages;
    if (!messages.empty() && !is_local(m))
      return {stage, fmt::format("for {} from stage {}, which sends those of micro-batch {} first", what,
                                 spec_.stage_of(m.from), messages.front().micro_batch)};
    return {spec_.stage_of(m.from), fmt::format("for {} from stage {}", what, spec_.stage_of(m.from))};
  }

  // The stages that wait for each other, one after the other.
  Status cycle_from(int stage) const {
    std::vector<int> way;
    std::vector<std::string> texts;
    while (!ended(stage) && std::find(way.begin(), way.end(), stage) == way.end()) {
      const Wait wait = wait_of(stage);
      way.push_back(stage);
      texts.push_back(fmt::format("stage {} waits at {} {}", stage, next(stage).to_text(), wait.text));
      stage = wait.stage;
    }
    const auto first =
        std::find(way.begin(), way.end(), stage);  // the end: it waits for a stage that is done
    const auto skipped = first == way.end() ? 0 : std::distance(way.begin(), first);
    texts.erase(texts.begin(), texts.begin() + skipped);
    return error(Code::kInternal, "[pipeline] the timetable never ends: {}",
                 fmt::format("{}", fmt::join(texts, "; ")));
  }

  const TimetableSpec& spec_;
  const TimetableRow& row_;
  const std::span<const StageActions> stages_;
  const std::size_t receives_ahead_;
  std::vector<std::size_t> next_;
  std::vector<int> held_;  // slots in use
  std::vector<Link> links_;
  std::vector<Slot> slots_;
  std::vector<int> open_;  // stages that may be able to go on
};

}  // namespace

Status verify_timetables(const TimetableSpec& spec, std::span<const StageActions> stages) {
  TR_RETURN_IF_ERROR(check_timetable(spec));
  const TimetableRow& row = **find_timetable_row(spec.kind);
  if (stages.size() != static_cast<std::size_t>(spec.stages))
    return error(Code::kInternal, "[pipeline] there are timetables of {} stages, expected {}", stages.size(),
                 spec.stages);
  for (int s = 0; s < spec.stages; ++s)
    TR_RETURN_IF_ERROR(StageCheck(spec, row, s).check(stages[static_cast<std::size_t>(s)]));
  return Rendezvous(spec, row, stages).run();
}

Status verify_timetable(const TimetableSpec& spec) {
  TR_ASSIGN_OR_RETURN(const std::vector<StageActions> stages, build_timetables(spec));
  return verify_timetables(spec, stages);
}

}  // namespace trireme::parallel
