#include "trireme/prepare/gradient_places.h"

#include <algorithm>
#include <tuple>

#include "trireme/job/job_parts.h"

namespace trireme::prepare {
namespace {

constexpr std::int64_t kLineElems = 16;
// The bucket before the one that is written may still be on its way.
constexpr std::size_t kUnderWay = 2;

struct Candidate {
  std::int64_t offset, num_elems;  // of all, with it
  std::vector<std::size_t> after;
};

bool is_better(const Candidate& a, const Candidate& b) {
  const auto newest = [](const Candidate& c) { return c.after.empty() ? 0 : c.after.back() + 1; };
  return std::make_tuple(a.num_elems, newest(a), a.offset) <
         std::make_tuple(b.num_elems, newest(b), b.offset);
}

}  // namespace

bool can_take_turns(const job::Job& job, const Prepared& prepared) {
  const plan::Plan& plan = prepared.plan;
  return plan.zero_level() >= 2 && plan.overlap == plan::Overlap::kBuckets && !job::waits_for_all(job) &&
         job.train.optimizer.max_batch_multiplier <= 1 && prepared.device == nullptr &&
         std::all_of(plan.buckets.begin(), plan.buckets.end(),
                     [](const plan::Bucket& b) { return b.sum == plan::Bucket::kDense; });
}

GradientPlaces place_gradients(const std::vector<plan::Bucket>& buckets, const std::set<std::size_t>& alone) {
  GradientPlaces out;
  std::vector<std::int64_t> ends;
  std::int64_t total = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const std::int64_t size = (buckets[b].num_elems + kLineElems - 1) / kLineElems * kLineElems;
    total += size;
    std::vector<std::int64_t> begins{0};
    begins.insert(begins.end(), ends.begin(), ends.end());
    Candidate best{-1, 0, {}};
    for (const std::int64_t begin : begins) {
      Candidate c{begin, std::max(out.num_elems, begin + size), {}};
      bool fits = true;
      for (std::size_t i = 0; i < b && fits; ++i) {
        if (ends[i] <= begin || out.offsets[i] >= begin + size) continue;
        fits = i + kUnderWay <= b && !alone.contains(i) && !alone.contains(b);
        c.after.push_back(i);
      }
      if (fits && (best.offset < 0 || is_better(c, best))) best = std::move(c);
    }
    out.num_elems = best.num_elems;
    out.offsets.push_back(best.offset);
    out.after.push_back(std::move(best.after));
    ends.push_back(best.offset + size);
  }
  if (out.num_elems == total) return {};
  return out;
}

void add_place_gates(const plan::Plan& plan, GradientPlaces& places, exec::CompileOptions& options) {
  places.gates.assign(places.after.size(), -1);
  for (std::size_t b = 0; b < places.after.size(); ++b) {
    if (places.after[b].empty()) continue;
    places.gates[b] = static_cast<int>(options.gates.size());
    exec::VariableGate gate;
    for (const std::string& p : plan.buckets[b].parameters) gate.outputs.push_back("grad:" + p);
    for (const std::string& s : plan.buckets[b].statistics) gate.outputs.push_back("stat:" + s);
    options.gates.push_back(std::move(gate));
  }
}

// Gates are opened as long as there is one that can be: the rest is stuck.
std::set<std::size_t> stuck_places(const Prepared& prepared) {
  const GradientPlaces& places = prepared.places;
  if (places.num_elems == 0) return {};
  const exec::Outline outline = prepared.train->outline();
  const std::vector<int>& bucket_of = prepared.bucket_of_notice;
  std::vector<std::int32_t> final_after(places.after.size(), -1);
  for (std::size_t n = 0; n < bucket_of.size(); ++n)
    if (bucket_of[n] >= 0) {
      std::int32_t& last = final_after[static_cast<std::size_t>(bucket_of[n])];
      last = std::max(last, outline.notice_after[n]);
    }
  std::set<std::size_t> closed;
  for (std::size_t b = 0; b < places.gates.size(); ++b)
    if (places.gates[b] >= 0) closed.insert(b);
  const auto is_told = [&](std::size_t bucket) {
    for (std::size_t n = 0; n < bucket_of.size(); ++n) {
      if (bucket_of[n] < 0 || final_after[static_cast<std::size_t>(bucket_of[n])] != final_after[bucket])
        continue;
      for (const std::size_t c : closed)
        if (prepared.train->is_behind(static_cast<int>(n), places.gates[c])) return false;
    }
    return true;
  };
  for (bool opened = true; opened;) {
    opened = false;
    for (const std::size_t b : std::set<std::size_t>(closed)) {
      const std::vector<std::size_t>& after = places.after[b];
      if (!std::all_of(after.begin(), after.end(), is_told)) continue;
      closed.erase(b);
      opened = true;
    }
  }
  return closed;
}

}  // namespace trireme::prepare
