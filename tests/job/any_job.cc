#include "tests/job/any_job.h"

#include <cmath>
#include <map>

#include "trireme/base/rng.h"

namespace trireme::job {
namespace {

std::string any_text(Philox& rng) {
  static const std::vector<std::string> kPieces{"a",  "Z9",   " ",    "\"", "\\",     "'",      "\n",
                                                "\t", "\x01", "\x7f", "=",  "#",      "[",      "]",
                                                "{",  "}",    ",",    ".",  "\u00e9", "\u65e5", "\U0001F6A3"};
  std::string text;
  for (std::uint32_t n = rng.next_below(8); n > 0; --n)
    text += kPieces[rng.next_below(static_cast<std::uint32_t>(kPieces.size()))];
  return text;
}
std::int64_t any_int(Philox& rng) { return static_cast<std::int64_t>(rng.next_u64()) >> rng.next_below(64); }
double any_number(Philox& rng) {
  if (rng.next_below(4) == 0) return static_cast<double>(any_int(rng));
  return std::ldexp(rng.next_double() - 0.5, static_cast<int>(rng.next_below(2070)) - 1050);
}
Json any_json(Philox& rng, int depth);
// In the order of their names, as a table that was read has them.
Json any_table(Philox& rng, int depth) {
  std::map<std::string, Json> items;
  for (std::uint32_t n = rng.next_below(4); n > 0; --n) items[any_text(rng)] = any_json(rng, depth);
  Json table = Json::object();
  for (auto& [name, item] : items) table[name] = std::move(item);
  return table;
}
Json any_list(Philox& rng, int depth) {
  Json list = Json::array();
  for (std::uint32_t n = rng.next_below(4); n > 0; --n) list.push_back(any_json(rng, depth));
  return list;
}
Json any_json(Philox& rng, int depth) {
  switch (rng.next_below(depth > 0 ? 6 : 4)) {
    case 0:
      return any_int(rng);
    case 1:
      return any_number(rng);
    case 2:
      return any_text(rng);
    case 3:
      return rng.next_below(2) == 1;
    case 4:
      return any_list(rng, depth - 1);
    default:
      return any_table(rng, depth - 1);
  }
}

void draw(Philox& rng, std::int64_t& v) { v = any_int(rng); }
void draw(Philox& rng, double& v) { v = any_number(rng); }
void draw(Philox& rng, std::string& v) { v = any_text(rng); }
void draw(Philox& rng, bool& v) { v = rng.next_below(2) == 1; }
void draw(Philox& rng, Json& v) { v = v.is_object() ? any_table(rng, 2) : any_list(rng, 2); }
template <class T>
void draw(Philox& rng, std::vector<T>& v) {
  v.resize(rng.next_below(4));
  for (T& item : v) draw(rng, item);
}
template <class T>
void draw(Philox& rng, std::optional<T>& v) {
  v.reset();
  if (rng.next_below(3) > 0) draw(rng, v.emplace());
}

template <class T>
void draw_field(Philox& rng, Job& job, T* (*get)(Job&)) {
  draw(rng, *get(job));
}
void draw_field(Philox& rng, Job& job, const OptionField& field) {
  if (rng.next_below(3) == 0) return;
  OptionValue value = field.spec->initial();
  std::visit([&](auto& v) { draw(rng, v); }, value);
  options_of(job, field.family).set(field.spec->name, std::move(value));
}

}  // namespace

Job any_job(std::uint64_t seed) {
  Philox rng(seed);
  Job job;
  for (const JobKey& key : job_keys())
    if (rng.next_below(2) == 1) std::visit([&](auto field) { draw_field(rng, job, field); }, key.field);
  if (!job.model.layers.empty()) job.model.name = Job().model.name;  // layers stand for it
  return job;
}

}  // namespace trireme::job
